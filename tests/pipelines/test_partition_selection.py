"""Globs of topics and numbers of partitions; both must match."""

from pipelines.partition_selection import PartitionSelection


def test_both_must_match_and_nothing_given_is_everything():
    everything = PartitionSelection()
    assert everything.is_everything
    assert everything.includes("t", None)
    some = PartitionSelection(topics=("orders-*", "t"), partitions=frozenset({0, 2}))
    found = [some.includes(*each) for each in (("orders-eu", 2), ("t", 0), ("t", 1), ("x", 0))]
    assert found == [True, True, False, False]
    assert not some.is_everything
