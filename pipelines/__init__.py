"""Spark over the rules below: thin, DataFrame to DataFrame."""
