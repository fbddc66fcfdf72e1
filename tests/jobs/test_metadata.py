"""`metadata` on real brokers' directories, and on logs by hand."""

from functools import partial

import pytest

from jobs import metadata
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from kafka_format.schemas import metadata as schemas
from tests import golden
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.kafka_log.image.stories import framed
from tests.kafka_log.inventory.test_cluster_metadata import LOG, A, B, config, log, remove, topic

run = partial(run_verb, metadata.main)
rows = partial(rows_of_verb, metadata.main)
A_TEXT = "AAAAEAAAAAAAAAAAAAAAAQ"


def a_log(tmp_path, *records):
    directory = tmp_path / "data" / "__cluster_metadata-0"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / LOG).write_bytes(log(*records))
    return tmp_path / "data"


def of_kind(kind, found):
    return [
        {name: value for name, value in row.items() if name != "kind"}
        for row in found
        if row["kind"] == kind
    ]


def test_a_real_brokers_topics_are_those_of_its_partition_metadata(capsys):
    """Kafka wrote the same ids next to the logs."""
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    found = rows(capsys, log_dir)
    ids = {row["topic"]: row["topic_id"] for row in of_kind("topic", found)}
    partitions = {(row["topic"], row["partition"]) for row in of_kind("partition", found)}
    for directory in log_dir.iterdir():
        name, _, number = directory.name.rpartition("-")
        if not directory.is_dir() or name == "__cluster_metadata":
            continue
        text = (directory / "partition.metadata").read_text()
        assert f"topic_id: {ids[name]}" in text.splitlines()
        assert (name, int(number)) in partitions
    (broker,) = of_kind("broker", found)
    properties = (log_dir / "meta.properties").read_text()
    assert f"directory.id={broker['log_dirs'][0]}" in properties
    assert f"node.id={broker['node_id']}" in properties


def test_rows_of_a_log_by_hand(tmp_path, capsys):
    partition = framed(
        schemas.PARTITION_RECORD,
        2,
        partition_id=0,
        topic_id=A,
        replicas=[1, 2],
        isr=[2],
        leader=2,
        leader_epoch=4,
        partition_epoch=9,
        last_known_elr=[1],
    )
    data = a_log(
        tmp_path,
        topic("a", A),
        partition,
        config(2, "a", "retention.ms", "5"),
        config(4, "1", "ssl.keystore.password", "hidden"),
    )
    found = rows(capsys, data)
    assert of_kind("topic", found) == [{"topic": "a", "topic_id": A_TEXT}]
    (row,) = of_kind("partition", found)
    assert (row["replicas"], row["isr"], row["leader"], row["elr"]) == ([1, 2], [2], 2, [])
    assert (row["leader_epoch"], row["partition_epoch"], row["last_known_elr"]) == (4, 9, [1])
    assert [(row["resource_type"], row["value"]) for row in of_kind("config", found)] == [
        ("topic", "5"),
        ("broker", None),
    ]
    code, out, _ = run(capsys, data)
    assert (code, "hidden" in out) == (CLEAN, False)


def test_history_and_difference(tmp_path, capsys):
    change = framed(schemas.CONFIG_RECORD, 0, resource_type=2, resource_name="a", name="x")
    data = a_log(tmp_path, topic("a", A), config(2, "a", "x", "1"), change, topic("b", B))
    found = of_kind("change", rows(capsys, data, "--history", "a"))
    assert [(row["offset"], row["field"], row["before"], row["after"]) for row in found] == [
        (0, "topic", None, A_TEXT),
        (1, "config x", None, "1"),
        (2, "config x", "1", ""),
    ]
    found = of_kind("difference", rows(capsys, data, "--diff", "1", "3"))
    assert [(row["of"], row["what"]) for row in found] == [
        ("config", "changed"),
        ("topic", "added"),
    ]
    assert of_kind("topic", rows(capsys, data, "--at", "2")) == [{"topic": "a", "topic_id": A_TEXT}]


def test_of_several_copies_the_longest_is_used_and_named(tmp_path, capsys):
    a_log(tmp_path / "one", topic("a", A))
    a_log(tmp_path / "two", topic("a", A), topic("b", B))
    code, out, err = run(capsys, tmp_path / "one" / "data", tmp_path / "two" / "data")
    assert code == CLEAN
    assert "two/data/__cluster_metadata-0: used, because it holds the most of 2 copies" in err
    assert "up to offset 2" in out


def test_a_record_that_a_broker_refuses(tmp_path, capsys):
    code, out, err = run(capsys, a_log(tmp_path, topic("a", A), remove(B)))
    assert code == FINDINGS
    assert "up to offset 1" in out
    assert "replay ends at offset 1: found the removal of topic id" in err


def test_no_metadata_log(tmp_path, capsys):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / LOG).touch()
    code, _, err = run(capsys, tmp_path)
    assert code == COULD_NOT_RUN
    assert "no metadata log (__cluster_metadata-0) found" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kind", "topics"), "--kind topics: unknown: did you mean topic?"),
        (("--at", "soon"), "'soon': expected an offset, epoch milliseconds, or a time"),
        (("--history", "a", "--diff", "1", "2"), "--history and --diff exclude each other"),
        (("--at", "1", "--diff", "1", "2"), "--at and --diff exclude each other"),
    ],
)
def test_wrong_usage(tmp_path, capsys, arguments, message):
    code, _, err = run(capsys, a_log(tmp_path, topic("a", A)), *arguments)
    assert code == USAGE
    assert message in err
