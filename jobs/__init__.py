"""The command line: argv to options to work to output; one module a verb.

`python -m jobs.cli` has the current directory first on the search path, and that may be evidence:
it is dropped here, before anything else is imported. Our own packages come from beside this one.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
from kafka_format.search_path import drop_current_directory

del sys.path[0]
drop_current_directory()
