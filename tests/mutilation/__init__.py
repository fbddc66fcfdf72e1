"""Small log directories, cut at every length and flipped at every bit.

directories.py   three directories of a few kilobytes, together with every kind of file
readers.py       a file read in full, by every reader there is
guard.py         the bounds of a case: time and memory
fields.py        which field of which file a byte belongs to
report.py        docs/formats/unnoticed.md: `python -m tests.mutilation.report` writes it anew
"""
