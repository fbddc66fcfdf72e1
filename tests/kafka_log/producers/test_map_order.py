"""Orders that java.util.HashMap<Long, …> printed for the same puts (OpenJDK 17)."""

from kafka_log.producers.map_order import in_map_order


def test_keys_come_by_bucket_and_within_one_as_they_came():
    put = [33, 17, 1, -1, 2**32, 16, 2**63 - 1, 100, 5]
    assert in_map_order({key: key for key in put}) == [
        *(-1, 16, 2**63 - 1),  # the hash of -1 and of the largest long folds to the first bucket
        *(33, 17, 1, 2**32),
        *(100, 5),
    ]


def test_a_map_that_held_more_than_twelve_keeps_its_buckets():
    left = {2: 2, 17: 17}
    assert in_map_order(left, most=12) == [17, 2]
    assert in_map_order(left, most=13) == [2, 17]
