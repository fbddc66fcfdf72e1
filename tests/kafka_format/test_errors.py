"""An error is a coordinate: where, found, expected."""

import pickle

import pytest

from kafka_format.errors import CrcMismatchError, FormatError, Location, TruncatedError


def test_a_message_is_where_found_expected() -> None:
    error = FormatError(Location("orders-0/00000000000000000000.log", 4096), "7 bytes", "61")
    assert str(error) == "orders-0/00000000000000000000.log@4096: found 7 bytes, expected 61"


def test_a_moved_error_is_of_the_same_kind_and_elsewhere() -> None:
    moved = TruncatedError(Location("<memory>", 3), "a", "b").moved("x.log", 100)
    assert type(moved) is TruncatedError
    assert (moved.location, moved.found, moved.expected) == (Location("x.log", 103), "a", "b")


def test_an_error_survives_the_way_from_a_worker() -> None:
    error = CrcMismatchError(Location("x.log", 17), "a", "b")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error)
    assert back.location == error.location


def test_every_format_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="x@1"):
        raise TruncatedError(Location("x", 1), "a", "b")
