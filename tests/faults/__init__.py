"""Faults by the call: every verb on a small directory, with the n-th call to the disk failing.

As SQLite does it: one run counts the calls that touch a file, then one run per call and fault
follows. Nothing in production code knows of it: the functions of `os` (and `open`) are replaced.

    calls         counts the calls below a directory, and lets one of them fail
    directories   small log dirs
    sweep         runs the verbs in children of one process, and judges how each ended

    python -m tests.faults                    every call, every fault, every verb
    python -m tests.faults --every 25         a sample
    python -m tests.faults --case list --fault EIO --call 17      one run, in full
"""
