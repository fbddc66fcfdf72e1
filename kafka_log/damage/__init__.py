"""Sound batches of a `.log`, and what lies between them.

    walk      the one walk: scans batches, and goes on after what is not a batch
    resync    the search for the next sound batch, by headers and checksums
    findings  the one table from what is wrong to the id of a finding

Everything that reads a damaged log uses the walk (docs/decisions/0014-one-walk-over-damage.md).
"""
