"""The command line: parse arguments, do the work, print the result; one module per verb.

`python -m jobs.cli` puts the current directory first on the search path, and that directory may be
evidence. It is dropped here, before anything else is imported. Our own packages are found next to
this one.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
from kafka_format.search_path import drop_current_directory

del sys.path[0]
drop_current_directory()
