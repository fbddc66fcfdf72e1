"""Directories made to harm who reads them, and every verb and table run over each.

corpus      the cases: what is built, how long a verb may take, and the exit code of each verb
logs        their batches: bombs, lengths that lie, lies with right checksums
healthy     the small log dir of a real broker that every case is built around
runner      a process with 4 GiB of address space that runs verbs over cases
attempts    starts runners, and starts another one where a case ended the first
report      the table of attempts and verdicts; `python -m tests.hostile` prints it
"""
