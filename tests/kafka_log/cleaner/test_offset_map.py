"""The map's room is Kafka's: so many slots by memory, so many of them by load factor."""

import pytest

from kafka_log.cleaner.offset_map import NOT_FOUND, Keys, OffsetMap


def test_a_broker_with_default_settings_maps_5033164_keys() -> None:
    offset_map = OffsetMap(128 * 1024 * 1024)
    assert offset_map.slots == 5_592_405
    assert offset_map.max_desired_size == 5_033_164


@pytest.mark.parametrize("keys", Keys)
def test_a_key_has_the_offset_that_was_put_last(keys: Keys) -> None:
    offset_map = OffsetMap(2400, keys=keys)
    offset_map.put(b"a", 3)
    offset_map.put(b"", 4)
    offset_map.put(b"a", 9)
    assert [offset_map.get(key) for key in (b"a", b"", b"b")] == [9, 4, NOT_FOUND]
    assert (offset_map.size, offset_map.latest_offset) == (2, 9)
    assert offset_map.utilization == 0.02


def test_a_cleared_map_knows_nothing() -> None:
    offset_map = OffsetMap(2400)
    offset_map.put(b"a", 3)
    offset_map.clear()
    assert (offset_map.get(b"a"), offset_map.size, offset_map.latest_offset) == (-1, 0, -1)


def test_a_map_is_full_at_its_load_factor() -> None:
    offset_map = OffsetMap(240)  # ten slots, of which nine may be used
    for i in range(9):
        assert not offset_map.is_full
        offset_map.put(b"%d" % i, i)
    assert offset_map.is_full


def test_a_map_without_room_for_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="too small an offset map"):
        OffsetMap(24)


def test_more_memory_than_an_int_of_java_is_not_used() -> None:
    assert OffsetMap(2**40).slots == (2**31 - 1) // 24
