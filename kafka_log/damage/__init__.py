"""Find the valid batches of a damaged `.log`, and the gaps between them.

    walk      the one walk: scans batches, and continues after what is not a batch
    resync    the search for the next valid batch, by headers and checksums
    findings  the one table from damage to the id of a finding

Everything that reads a damaged log uses the walk (docs/decisions/0014-one-walk-over-damage.md).
"""
