"""Why each record stays or goes.

explain      rounds on one log, with a row for every record
explainer    the witness that makes rows of reason codes
rows         those rows, as columns
"""
