"""Why each record is kept or removed.

explain      rounds on one log, with a row for every record
explainer    the witness that turns reason codes into rows
rows         the rows, as columns
"""
