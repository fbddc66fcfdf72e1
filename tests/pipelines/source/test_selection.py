"""A query that means nothing is an error that lists what is there."""

import json

import pytest

from pipelines.source.options import OptionsError
from pipelines.source.storage import StorageError
from tests.pipelines.readers import read
from tests.pipelines.segments import record, write_segment


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for name in ("orders-0", "orders-1", "payments-0", "returns-0"):
        write_segment(root / name, 0, 20)
    write_segment(root / "gone-0.0123456789abcdef0123456789abcdef-delete", 0, 20)
    return root


def topics(root, **options):
    return {
        (row["topic"], row["partition"]) for row in read(root, columns="topic,partition", **options)
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"topics": "oders"},
            (
                "topics oders: no such topic (did you mean orders?), expected one of the 3 here:"
                " orders, payments, returns"
            ),
        ),
        (
            {"topics": "orders,oders"},
            (
                "topics oders: no such topic (did you mean orders?), expected one of the 3 here:"
                " orders, payments, returns"
            ),
        ),
        (
            {"topics": "x*,y*"},
            "topics x*,y*: no topic matches, expected one of the 3 here: orders, payments, returns",
        ),
        (
            {"topics": "orders", "partitions": "2,7"},
            (
                "topics orders, partitions 2, 7: no such partition, expected one of the 2 here:"
                " orders-0, orders-1"
            ),
        ),
        (
            {"partitions": "7"},
            (
                "partitions 7: no such partition, expected one of the 4 here: orders-0, orders-1,"
                " payments-0, returns-0"
            ),
        ),
        (
            {"subscribe": "orders, order"},
            (
                "subscribe order: no such topic (did you mean orders?), expected one of the 3 here:"
                " orders, payments, returns"
            ),
        ),
        (
            {"subscribePattern": "o"},
            (
                "subscribePattern o: no topic matches, expected one of the 3 here: orders,"
                " payments, returns"
            ),
        ),
        (
            {"assign": '{"orders": [0, 5]}'},
            "assign orders-5: no such partition, expected one of the 2 here: orders-0, orders-1",
        ),
    ],
)
def test_what_matches_nothing_is_an_error_that_lists_what_is_there(root, options, message):
    for table in ("records", "batches"):
        with pytest.raises(OptionsError) as raised:
            read(root, table, **options)
        assert str(raised.value) == message


def test_a_topic_of_which_nothing_lives_is_named_with_its_path(root):
    with pytest.raises(
        OptionsError, match=r"topics gone: no such topic that lives \(give the path"
    ):
        read(root, topics="gone")
    assert len(read(root, "segments", topics="gone")) == 1


def test_of_many_the_first_ten_are_named(tmp_path):
    for number in range(12):
        write_segment(tmp_path / f"t{number:02d}-0", 0, 1)
    with pytest.raises(OptionsError, match=r"12 here: t00, .*, t09 and 2 more$"):
        read(tmp_path, topics="none")


def test_globs_of_which_one_matches_are_fine(root):
    assert topics(root, topics="pay*,x*") == {("payments", 0)}


def test_internal_topics_may_tell_of_topics_that_are_not_here(root):
    assert read(root, "consumer_offsets", topics="elsewhere") == []


def test_a_path_with_nothing_is_an_error(root, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("empty", "notes.txt"):
        with pytest.raises(StorageError, match=f"{name}: no Kafka files found"):
            read(tmp_path / name)
        with pytest.raises(StorageError, match=f"{name}: no Kafka files found"):
            read(f"{root},{tmp_path}/{name}")


def test_a_log_dir_without_partitions_is_an_error_where_records_are_wanted(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for table in ("records", "batches"):
        with pytest.raises(StorageError, match="found no partition"):
            read(tmp_path, table)
    assert len(read(tmp_path, "log_dirs")) == 1


# ------------------------------------------------------------------------------- Spark's words


def test_topics_are_chosen_as_in_sparks_kafka_source(root):
    assert topics(root, subscribe="orders, returns") == {
        *(("orders", 0), ("orders", 1), ("returns", 0))
    }
    assert topics(root, subscribePattern="(orders|pay.*)", partitions="0") == {
        *(("orders", 0), ("payments", 0))
    }
    assert topics(root, assign='{"orders": [1], "payments": [0]}') == {
        *(("orders", 1), ("payments", 0))
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "topics": "a"}, "subscribe and topics: expected at most one of"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "assign and subscribe: expected at most one"),
        ({"assign": '{"a": [0]}', "partitions": "0"}, "assign and partitions: expected one of"),
        ({"assign": "orders"}, "expected JSON such as"),
        ({"assign": '{"a": ["0"]}'}, "expected JSON such as"),
        ({"assign": "{}"}, "found no partition, expected JSON such as"),
        ({"subscribePattern": "("}, "expected a regular expression"),
        ({"subscribe": " "}, "found none, expected one or more"),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"a": {"0": 5}}'},
            "startingTimestamp and startingOffsetsByTimestamp: expected at most one",
        ),
        ({"startingOffsetsByTimestamp": '{"a": 5}'}, "expected JSON such as"),
        ({"startingTimestamp": "yesterday"}, "expected epoch milliseconds or a time such as"),
        ({"maxDecompressedBytes": "0"}, "expected a size such as"),
        ({"maxDecompressedBytes": "2g"}, "expected at most 2147483647"),
        ({"columnNameOfCorruptRecord": "offset"}, "has a column of that name"),
    ],
)
def test_what_contradicts_itself_is_refused(root, options, message):
    with pytest.raises(OptionsError, match=message):
        read(root, **options)


def offsets(root, **options):
    return [row["offset"] for row in read(root, columns="offset", **options)]


def test_times_are_milliseconds_or_iso(root):
    # The records are of 1970-01-01T00:16:40 and on, one a second.
    assert record(10, 0).timestamp == 1_010_000
    for time in (
        "1010000",
        "1970-01-01T00:16:50Z",
        "1970-01-01 00:16:50",
        "1970-01-01T01:16:50+01:00",
    ):
        assert offsets(root, topics="returns", startingTimestamp=time) == [*range(10, 20)]
        assert offsets(root, topics="returns", endingTimestamp=time) == [*range(10)]


def test_times_by_partition_are_for_those_alone(root):
    times = json.dumps({"orders": {"0": 1_015_000, "1": "1970-01-01T00:16:58Z"}})
    rows = read(root, subscribe="orders,returns", startingOffsetsByTimestamp=times)
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        *(("orders", 0, at) for at in range(15, 20)),
        *(("orders", 1, at) for at in range(18, 20)),
        *(("returns", 0, at) for at in range(20)),
    ]
    assert offsets(root, assign='{"orders": [0]}', endingOffsetsByTimestamp=times) == [*range(15)]
