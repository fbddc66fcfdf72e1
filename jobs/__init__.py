"""The command line: arguments to work to output; one module per verb.

    audit                   the verb `audit`
    audit_outputs           the outputs and the baseline of `audit`
    cli                     join the verbs as `kafka-forensics`
    compact                 the verb `compact`
    compaction_explained    --explain, --explain-key and --what-if of `compact`
    dump                    the verb `dump`
    export                  the verb `export`
    groups                  the verb `groups`
    list                    the verb `list`
    metadata                the verb `metadata`
    offsets                 the verb `offsets`
    options                 what verbs share: options, exit codes, errors
    outcome                 the outcome of a verb: rows, failures, exit code
    places                  paths and the DIRECTORY column
    recover                 the verb `recover`
    retain                  the verb `retain`
    rewriting               run tasks and put results in place: `retain`, `recover`, `compact`
    running                 the warning that a broker is running
    selected_partitions     find the partitions to work on, and report problems
    table                   tables and JSON lines
    transactions            the verb `transactions`

`python -m jobs.cli` has the current directory first on the search path, and that may be evidence:
it is dropped here, before anything else is imported. Our own packages come from beside this one.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
from kafka_format.search_path import drop_current_directory

del sys.path[0]
drop_current_directory()
