"""One module per table that needs more than a scan."""
