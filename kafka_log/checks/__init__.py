"""What is wrong in a log directory: one module per kind of evidence, each yields Finding values."""
