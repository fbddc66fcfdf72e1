"""What is wrong in a log directory.

brokers/     one broker: what its log dirs, metadata and internal topics say of each other
facts        what checks of several files or partitions need to know of each
finding      Finding: what is wrong, where, and by which rule
partitions/  one partition: what its files say of each other
rules/       the rules by their ids
segments/    one segment: its `.log`, and the files next to it
"""
