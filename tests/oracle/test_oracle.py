"""The oracle itself: it is deterministic, it survives errors, one JVM answers a whole run."""

from pathlib import Path

import pytest

from tests.oracle.client import (
    Oracle,
    OracleDiedError,
    OracleError,
    OracleTimeoutError,
    b64,
    record,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_one_jvm_answers_every_request_of_a_run(oracle: Oracle) -> None:
    pid = oracle.pid
    for codec in CODECS:
        assert oracle.build_batch(codec=codec, records=[record(1, b"k", b"v")])
    assert oracle.pid == pid


def test_an_exception_of_kafkas_is_an_oracle_error_and_the_jvm_lives_on(oracle: Oracle) -> None:
    pid = oracle.pid
    with pytest.raises(OracleError, match="Transactional records are not supported for magic 1"):
        oracle.build_batch(magic=1, transactional=True, records=[record(1, b"k", b"v")])
    with pytest.raises(OracleError, match="unknown request nonsense") as caught:
        oracle.call("nonsense")
    assert caught.value.error_class == "java.lang.IllegalArgumentException"
    assert "at oracle.Main" in caught.value.trace
    assert oracle.pid == pid


def test_an_exit_of_a_tool_does_not_end_the_jvm(oracle: Oracle) -> None:
    pid = oracle.pid
    helped = oracle.dump("--help", check=False)
    assert helped.exit == 1
    assert "--print-data-log" in helped.stdout + helped.stderr
    assert oracle.pid == pid


def test_a_request_out_of_time_ends_its_jvm_and_the_next_has_a_new_one(
    oracle: Oracle,  # only to skip where there are no jars
) -> None:
    with Oracle(timeout=20) as own:
        first = own.pid
        with pytest.raises(OracleTimeoutError, match=r"sleep: timeout: no answer in 0\.2 s"):
            own.call("sleep", seconds=60, timeout=0.2)
        assert own.call("sleep", seconds=0) == {"slept": 0}
        assert own.pid not in {None, first}


def test_a_jvm_that_dies_says_why(oracle: Oracle) -> None:
    with Oracle(flags=["-XX:+NoSuchFlag"]) as own, pytest.raises(OracleDiedError, match="NoSuchF"):
        own.call("sleep", seconds=0)


def test_reading_damaged_bytes_tells_the_error_where_it_is(oracle: Oracle) -> None:
    good = oracle.build_batch(records=[record(1, b"k", b"v")])
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    found = oracle.read_batches(good + flipped)
    assert [batch["is_valid"] for batch in found["batches"]] == [True, False]
    assert found["error"] is None
    cut = oracle.read_batches(good + good[:16] + b"\x07" + good[17:])
    assert len(cut["batches"]) == 1
    assert cut["error"]["class"] == "org.apache.kafka.common.errors.CorruptRecordException"


def test_both_readers_agree_and_keep_null_from_empty(oracle: Oracle, tmp_path: Path) -> None:
    built = oracle.build_batch(
        base_offset=10,
        records=[
            record(5, None, b"", [("h", None), ("", b"")]),
            record(7, b"", None, offset=14),
        ],
    )
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(built)
    found = oracle.read_batches(built)
    assert oracle.read_batches(path) == found
    first, second = found["batches"][0]["records"]
    assert (first["key"], first["value"], first["headers"]) == (None, "", [["h", None], ["", ""]])
    assert (second["key"], second["value"], second["offset"]) == ("", None, 14)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS[:4])
def test_the_releases_build_the_same_bytes(
    oracle: Oracle, oracle_3_9: Oracle, magic: int, codec: str
) -> None:
    batch = {"magic": magic, "codec": codec, "base_offset": 3}
    batch["records"] = [record(10 + i, b"key", b"value" * i) for i in range(20)]
    assert oracle.build_batch(batch) == oracle_3_9.build_batch(batch)


def test_control_records_come_back_decoded(oracle: Oracle) -> None:
    voters = {"version": 0, "voters": []}
    batch = oracle.build_batch(control={"type": "KRAFT_VOTERS", "message": voters}, timestamp=4)
    (record_,) = oracle.read_batches(batch)["batches"][0]["records"]
    assert record_["control"] == {"type_id": 6, "type": "KRAFT_VOTERS", "message": voters}
    marker = oracle.build_batch(
        control={"type": "ABORT", "coordinator_epoch": 9},
        transactional=True,
        producer_id=1,
        producer_epoch=0,
    )
    (record_,) = oracle.read_batches(marker)["batches"][0]["records"]
    assert record_["value"] == b64(b"\0\0\0\0\0\x09")
    assert record_["control"] == {"type_id": 0, "type": "ABORT", "coordinator_epoch": 9}


def test_every_record_type_and_version_comes_back_as_it_was_drawn(oracle: Oracle) -> None:
    drawn = oracle.random_messages(seed=7, count=2)
    known = {
        (schema["name"], version)
        for schema in oracle.message_schemas()
        for version in range(schema["lowest_version"], schema["highest_version"] + 1)
    }
    assert {(one.name, one.version) for one in drawn} == known
    for one in drawn:
        assert oracle.decode_message(one.name, one.version, one.bare) == one.data
        assert oracle.encode_message(one.name, one.version, one.data) == one.bare
        if one.set == "metadata":
            assert oracle.decode_metadata(one.stored)["data"] == one.data
            assert oracle.encode_metadata(one.api_key, one.version, one.data) == one.stored


def test_random_messages_depend_on_the_seed_alone(oracle: Oracle) -> None:
    def drawn(seed: int) -> list[bytes]:
        return [one.stored for one in oracle.random_messages(seed, set="group")]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_unknown_tagged_fields_are_written_after_the_known(oracle: Oracle) -> None:
    (plain,) = oracle.random_messages(3, name="NoOpRecord")
    (tagged,) = oracle.random_messages(3, name="NoOpRecord", unknown_tags=True)
    assert plain.bare == b"\x00"
    assert tagged.bare == b"\x01" + b"\xa9\x46" + b"\x03" + b"\x01\x02\x03"


def test_a_coordinator_record_and_its_tombstone(oracle: Oracle) -> None:
    told = {
        "api_key": 1,
        "key": {"group": "g", "topic": "t", "partition": 2},
        "version": 3,
        "value": {"offset": 5, "leaderEpoch": 6, "metadata": "m", "commitTimestamp": 9},
    }
    key, value = oracle.encode_coordinator("group", told)
    assert key == bytes.fromhex("0001 0001 67 0001 74 00000002")
    assert value == bytes.fromhex("0003 0000000000000005 00000006 0001 6d 0000000000000009")
    assert oracle.decode_coordinator("group", key, value) == told | {"key_name": "OffsetCommitKey"}
    tombstone = told | {"version": None, "value": None}
    assert oracle.encode_coordinator("group", tombstone) == (key, None)


UUID = "AAAAAAAAAAAAAAAAAAAAAQ"
SIDE_FILES = [
    (
        "offset_index",
        "00000000000000000100.index",
        {"entries": [{"offset": 105, "position": 44}]},
        bytes.fromhex("00000005 0000002c"),
    ),
    (
        "time_index",
        "00000000000000000100.timeindex",
        {"entries": [{"timestamp": 9, "offset": 110}], "preallocated": True, "max_index_size": 24},
        bytes.fromhex("0000000000000009 0000000a") + bytes(12),
    ),
    (
        "leader_epoch_checkpoint",
        "leader-epoch-checkpoint",
        {"entries": [{"epoch": 3, "start_offset": 10}]},
        b"0\n1\n3 10\n",
    ),
    (
        "offset_checkpoint",
        "replication-offset-checkpoint",
        {"entries": [{"topic": "a.b-c", "partition": 12, "offset": 7}]},
        b"0\n1\na.b-c 12 7\n",
    ),
    (
        "partition_metadata",
        "partition.metadata",
        {"topic_id": UUID},
        f"version: 0\ntopic_id: {UUID}".encode(),
    ),
    (
        "clean_shutdown",
        ".kafka_cleanshutdown",
        {"broker_epoch": 77},
        b'{"version":0,"brokerEpoch":77}',
    ),
]


@pytest.mark.parametrize(
    ("kind", "name", "content", "expected"), SIDE_FILES, ids=[kind for kind, *_ in SIDE_FILES]
)
def test_a_side_file_is_written_and_read(
    oracle: Oracle, tmp_path: Path, kind: str, name: str, content: dict, expected: bytes
) -> None:
    path = tmp_path / name
    assert oracle.write_file(kind, path, content) == expected
    found = oracle.read_file(kind, path)
    entries = content.get("entries")
    if entries is None:
        assert content.items() <= found.items()
    else:
        assert found["entries"][: len(entries)] == entries


def test_snapshots_hold_the_metadata_records_given(oracle: Oracle, tmp_path: Path) -> None:
    records = [
        {"api_key": one.api_key, "version": one.version, "data": one.data}
        for one in oracle.random_messages(5, set="metadata")
    ]
    snapshot = tmp_path / "00000000000000000050-0000000003.checkpoint"
    bootstrap = tmp_path / "bootstrap.checkpoint"
    told = {"records": records, "kraft_version": 1, "timestamp": 4}
    oracle.write_file("metadata_snapshot", snapshot, told)
    oracle.write_file("bootstrap_checkpoint", bootstrap, {"records": records})
    for kind, path in (("metadata_snapshot", snapshot), ("bootstrap_checkpoint", bootstrap)):
        batches = oracle.read_file(kind, path)["batches"]
        assert [one for batch in batches for one in batch.get("records", ())] == records
        controls = [one["name"] for batch in batches for one in batch.get("control_records", ())]
        assert (controls[0], controls[-1]) == ("SnapshotHeaderRecord", "SnapshotFooterRecord")


def test_reading_a_file_that_is_not_there_does_not_create_it(
    oracle: Oracle, tmp_path: Path
) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    with pytest.raises(OracleError, match="NoSuchFileException"):
        oracle.read_file("leader_epoch_checkpoint", path)
    assert not path.exists()
