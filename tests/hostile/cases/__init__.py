"""The cases, one module for each class."""
