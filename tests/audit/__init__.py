"""The audit as a whole, on directories of real brokers: what it sees, and what it must not see.

auditing    one audit in this process
bench       a copy of a directory in which one file at a time is changed
changes     every byte, changed in two ways
unseen      changes that nobody can see, by class, with the reason
kafkas      what Kafka's own tools see of the same changes
report      the table in docs/reliability.md
"""
