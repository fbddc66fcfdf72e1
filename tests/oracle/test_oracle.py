"""The oracle itself: it is deterministic, it survives errors, one JVM answers a whole run."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import (
    Oracle,
    OracleDiedError,
    OracleError,
    OracleTimeoutError,
    b64,
    record,
    unb64,
)
from tests.oracle.logs import CODECS, ExpectedRecord


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
    reported = {
        "api_key": 1,
        "key": {"group": "g", "topic": "t", "partition": 2},
        "version": 3,
        "value": {"offset": 5, "leaderEpoch": 6, "metadata": "m", "commitTimestamp": 9},
    }
    key, value = oracle.encode_coordinator("group", reported)
    assert key == bytes.fromhex("0001 0001 67 0001 74 00000002")
    assert value == bytes.fromhex("0003 0000000000000005 00000006 0001 6d 0000000000000009")
    assert oracle.decode_coordinator("group", key, value) == reported | {
        "key_name": "OffsetCommitKey"
    }
    tombstone = reported | {"version": None, "value": None}
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
        "transaction_index",
        "00000000000000000100.txnindex",
        {
            "entries": [
                {
                    "version": 0,
                    "producer_id": 5,
                    "first_offset": 105,
                    "last_offset": 108,
                    "last_stable_offset": 102,
                }
            ]
        },
        bytes.fromhex("0000 0000000000000005 0000000000000069 000000000000006c 0000000000000066"),
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


def test_a_producer_snapshot_is_written_and_read(oracle: Oracle, tmp_path: Path) -> None:
    entry = {
        "producer_id": 5,
        "producer_epoch": 1,
        "last_sequence": 3,
        "last_offset": 108,
        "offset_delta": 2,
        "timestamp": 99,
        "coordinator_epoch": 4,
        "current_txn_first_offset": 100,
    }
    path = tmp_path / "00000000000000000109.snapshot"
    written = oracle.write_file("producer_snapshot", path, {"entries": [entry]})
    assert written[:2] == b"\0\1"
    assert written[6:] == bytes.fromhex(
        "00000001 0000000000000005 0001 00000003 000000000000006c 00000002"
        "0000000000000063 00000004 0000000000000064"
    )
    (found,) = oracle.read_file("producer_snapshot", path)["entries"]
    assert found.pop("batches")[0]["first_sequence"] == 1
    assert found == entry
    path.write_bytes(written[:-1] + b"\0")
    with pytest.raises(OracleError, match="CorruptSnapshotException: Snapshot is corrupt"):
        oracle.read_file("producer_snapshot", path)


@pytest.mark.parametrize("version", [0, 1])
def test_meta_properties_of_both_versions(oracle: Oracle, tmp_path: Path, version: int) -> None:
    reported = {"version": version, "cluster_id": "c", "node_id": 3, "directory_id": UUID}
    path = tmp_path / "meta.properties"
    lines = oracle.write_file("meta_properties", path, reported).decode().splitlines()
    node = "node.id=3" if version else "broker.id=3"
    assert {f"version={version}", "cluster.id=c", node, f"directory.id={UUID}"} <= set(lines)
    assert reported.items() <= oracle.read_file("meta_properties", path).items()


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_quorum_state_of_both_versions(oracle: Oracle, tmp_path: Path, kraft_version: int) -> None:
    path = tmp_path / "quorum-state"
    reported = {"leaderId": 1, "leaderEpoch": 5, "votedId": -1}
    version_0 = {"clusterId": "", "appliedOffset": 0, "currentVoters": [{"voterId": 1}]}
    version_1 = {"votedDirectoryId": "A" * 22}
    data = reported | (version_1 if kraft_version else version_0)
    content = {"kraft_version": kraft_version, "data": data}
    written = json.loads(oracle.write_file("quorum_state", path, content))
    assert written == data | {"data_version": kraft_version}
    assert oracle.read_file("quorum_state", path) == reported | version_1


def test_snapshots_hold_the_metadata_records_given(oracle: Oracle, tmp_path: Path) -> None:
    records = [
        {"api_key": one.api_key, "version": one.version, "data": one.data}
        for one in oracle.random_messages(5, set="metadata")
    ]
    snapshot = tmp_path / "00000000000000000050-0000000003.checkpoint"
    bootstrap = tmp_path / "bootstrap.checkpoint"
    reported = {"records": records, "kraft_version": 1, "timestamp": 4}
    oracle.write_file("metadata_snapshot", snapshot, reported)
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


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def found_records(oracle: Oracle, segments: list[Path]) -> list[ExpectedRecord]:
    """Every record as Kafka's own FileRecords finds it."""
    found = []
    for segment in segments:
        read = oracle.read_batches(segment)
        assert read["error"] is None
        for batch in read["batches"]:
            assert (batch["error"], batch["is_valid"]) == (None, True)
            found += [expected_of(batch, record_) for record_ in batch["records"]]
    return found


def expected_of(batch: dict[str, Any], record_: dict[str, Any]) -> ExpectedRecord:
    return ExpectedRecord(
        offset=record_["offset"],
        timestamp=record_["timestamp"],
        key=unb64(record_["key"]),
        value=unb64(record_["value"]),
        headers=tuple((name, unb64(value)) for name, value in record_["headers"]),
        producer_id=batch["producer_id"],
        producer_epoch=batch["producer_epoch"],
        sequence=record_["sequence"],
        partition_leader_epoch=batch["partition_leader_epoch"],
        is_transactional=batch["is_transactional"],
        control=record_["control"]["type"] if batch["is_control"] else None,
        codec=batch["codec"],
    )


def test_a_seed_gives_the_same_directory_byte_for_byte(oracle: Oracle, tmp_path: Path) -> None:
    first = oracle.build_log(tmp_path / "a" / "orders-0", seed=1)
    with Oracle() as another_jvm:
        second = another_jvm.build_log(tmp_path / "b" / "orders-0", seed=1)
    other = oracle.build_log(tmp_path / "c" / "orders-0", seed=2)
    assert files_of(first.path) == files_of(second.path)
    assert files_of(first.path) != files_of(other.path)
    assert first.state == second.state


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"timestamp_type": "LogAppendTime"},
        {"gaps": True},
        {"gaps": True, "timestamp_type": "LogAppendTime"},
        {"magic": 1, "codecs": CODECS[:4]},
        {"magic": 1, "codecs": CODECS[:4], "timestamp_type": "LogAppendTime"},
        {"magic": 0, "codecs": CODECS[:4]},
        {"close": "crash"},
    ],
    ids=str,
)
def test_a_built_log_holds_what_its_plan_says(
    oracle: Oracle, tmp_path: Path, fields: dict[str, Any]
) -> None:
    built = oracle.build_log(tmp_path / "orders-0", seed=3, **fields)
    assert len(built.segments()) >= 20
    assert found_records(oracle, built.segments()) == built.records


def test_the_default_plan_has_a_little_of_everything(oracle: Oracle, tmp_path: Path) -> None:
    built = oracle.build_log(tmp_path / "orders-0", seed=4)
    assert {record_.codec for record_ in built.records} == set(CODECS)
    assert {record_.control for record_ in built.records} == {None, "COMMIT", "ABORT"}
    assert {None, b""} <= {record_.key for record_ in built.records}
    assert {None, b""} <= {record_.value for record_ in built.records}
    assert any(value is None for record_ in built.records for _, value in record_.headers)
    assert len(built.state["leader_epochs"]) == 4
    assert built.state["aborted_transactions"]
    assert built.state["last_stable_offset"] < built.state["log_end_offset"]
    assert len(built.segments()) >= 24


def test_a_crash_leaves_preallocated_files_and_opening_a_copy_recovers_them(
    oracle: Oracle, tmp_path: Path
) -> None:
    built = oracle.build_log(
        tmp_path / "orders-0", seed=5, close="crash", config={"preallocate": True}
    )
    before = files_of(built.path)
    last = built.segments()[-1]
    assert last.stat().st_size == 2048
    assert last.with_suffix(".index").stat().st_size == 1024
    opened = oracle.open_log(
        built.path, tmp_path / "copy", clean_shutdown=False, config={"segment.index.bytes": 1024}
    )
    assert files_of(built.path) == before
    reported = ("log_end_offset", "last_stable_offset", "aborted_transactions", "leader_epochs")
    assert {name: opened["state"][name] for name in reported} == {
        name: built.state[name] for name in reported
    }
    recovered = tmp_path / "copy" / "orders-0" / last.name
    assert recovered.read_bytes() == before[last.name][: recovered.stat().st_size]
    assert recovered.stat().st_size < 2048


def test_a_step_that_may_fail_tells_its_error(oracle: Oracle, tmp_path: Path) -> None:
    batch = {"producer_id": 1, "producer_epoch": 0, "records": [record(1, b"k", b"v")]}
    answer = oracle.run_log(
        tmp_path / "orders-0",
        steps=[
            {"do": "append", "batch": batch | {"base_sequence": 0}},
            {"do": "append", "batch": batch | {"base_sequence": 9}, "may_fail": True},
        ],
    )
    assert answer["steps"][1]["error"]["class"].endswith("OutOfOrderSequenceException")
    assert answer["state"]["log_end_offset"] == 1


def test_a_bench_loop_sees_every_record(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    size = oracle.build_segment(path, records=1000, records_per_batch=30, codec="lz4")
    assert path.stat().st_size == size
    for mode in ("records", "skip", "headers"):
        answer = oracle.bench_records(path, rounds=2, mode=mode)
        assert (answer["records"], answer["batches"]) == (1000, 34)
        assert len(answer["seconds"]) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_compressed_is_decompressed(oracle: Oracle, codec: str) -> None:
    data = bytes(range(256)) * 300  # more than one block of any codec
    compressed = oracle.compress(codec, data)
    assert oracle.decompress(codec, compressed) == data
    assert (compressed == data) == (codec == "none")


def test_magic_0_has_the_old_lz4_frame_checksum(oracle: Oracle) -> None:
    frames = [oracle.compress("lz4", b"abc", magic=magic) for magic in (0, 1)]
    differs = [i for i, pair in enumerate(zip(*frames, strict=True)) if pair[0] != pair[1]]
    assert differs == [6]  # after the four bytes of the frame's magic and its two descriptor bytes


def test_an_index_shows_its_file_after_every_step(oracle: Oracle, tmp_path: Path) -> None:
    steps = [{"do": "open"}, {"do": "append", "offset": 7, "position": 100}, {"do": "close"}]
    run = {"kind": "offset", "path": str(tmp_path / "x.index"), "base_offset": 5, "steps": steps}
    (reported,) = oracle.call("run_indexes", runs=[run | {"max_index_size": 30}])
    entry = bytes.fromhex("0000000200000064")
    assert [unb64(step["bytes"]) for step in reported] == [bytes(24), entry + bytes(16), entry]


def test_a_segment_tells_its_files_and_errors_after_every_step(
    oracle: Oracle, tmp_path: Path
) -> None:
    steps = [{"do": "open"}, {"do": "sanity_check"}, {"do": "flush"}, {"do": "close"}]
    run = {"path": str(tmp_path), "base_offset": 5, "config": {"segment.index.bytes": 30}}
    (reported,) = oracle.call("run_segments", runs=[run | {"steps": steps}])
    log, index, times = (f"{5:020}.{ending}" for ending in ("log", "index", "timeindex"))
    assert [list(step["files"]) for step in reported] == [
        [log],
        [log],
        [index, log, times],
        [index, log, times],
    ]
    assert reported[1]["error"]["class"] == "java.nio.file.NoSuchFileException"
    zeros = f"24 {zlib.crc32(bytes(24))}"
    assert reported[2]["files"] == {log: "0 0", index: zeros, times: zeros}
    assert reported[3]["files"] == {log: "0 0", index: "0 0", times: "0 0"}
