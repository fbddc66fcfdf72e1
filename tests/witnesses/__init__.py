"""Independent clients that read what we write, and write what we read."""

import warnings

# kafka-python loads its schemas in a way Python has deprecated; our tests treat warnings as errors.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
