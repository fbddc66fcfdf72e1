"""The packs are whole, say where they come from, and hold what they promise.

Nothing here is judged by our own decoders: file names, literal bytes, what Kafka's consumer
received, and what Kafka's DumpLogSegments says.
"""

import base64
import hashlib
import io
import re
import struct
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import golden
from tests.golden.make.scenarios import SCENARIOS

PACKS_TOGETHER = 6_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RELEASES = {"0.10.2.2", "2.8.2", "3.9.1", "4.3.1"}


class Entry(NamedTuple):
    """A batch of magic 2 or a message of magic 0 and 1, as far as these tests look at it."""

    magic: int
    codec: str
    append_time: bool
    transactional: bool
    control: bool
    delete_horizon: bool
    record_count: int
    payload: bytes


def entries(log: Path) -> Iterator[Entry]:
    """Fixed places in the bytes: the size at 8, the magic at 16, the attributes behind it."""
    content = log.read_bytes()
    position = 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        entry = content[position : position + size]
        magic = entry[16]
        attributes = int.from_bytes(entry[21:23], "big") if magic == 2 else entry[17]
        yield Entry(
            magic,
            CODECS[attributes & 7],
            bool(attributes & 8),
            bool(attributes & 16),
            bool(attributes & 32),
            bool(attributes & 64),
            struct.unpack_from(">i", entry, 57)[0] if magic == 2 else 1,
            entry[61:] if magic == 2 else entry,
        )
        position += size


def partition_entries(name: str, partition: str) -> list[Entry]:
    logs = sorted(golden.shared(name).glob(f"data*/{partition}/*.log"))
    return [entry for log in logs for entry in entries(log)]


def received(name: str, topic: str, isolation: str = "read_uncommitted") -> list[dict]:
    return [
        row
        for row in golden.expected(name)
        if row["topic"] == topic and row["isolation"] == isolation and "offset" in row
    ]


def types_and_versions(name: str, topic: str) -> Counter:
    """Record type and value version of coordinator records, -1 for a tombstone."""
    return Counter(
        (_int16(row["key"]), -1 if row["value"] is None else _int16(row["value"]))
        for row in received(name, topic)
    )


def _int16(text: str) -> int:
    return int.from_bytes(base64.b64decode(text)[:2], "big")


# ---------------------------------------------------------------------------- the packs as such


def test_every_release_has_a_pack_and_every_pack_a_scenario() -> None:
    assert {name.partition("-")[2] for name in golden.names()} == RELEASES
    assert set(golden.names()) == set(SCENARIOS)


@pytest.mark.parametrize("name", golden.names())
def test_every_file_of_a_pack_is_the_one_its_manifest_lists(name: str) -> None:
    root = golden.shared(name)
    listed = {
        (golden.PACKS / name if "/" not in each.path else root) / each.path: each
        for each in golden.checksums(name)
    }
    packed = {golden.PACKS / name / file for file in (golden.ARCHIVE, golden.EXPECTED)}
    assert listed.keys() == packed | {path for path in root.rglob("*") if path.is_file()}
    for path, checksum in listed.items():
        assert path.stat().st_size == checksum.size, path
        assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum.sha256, path


@pytest.mark.parametrize("name", golden.names())
def test_a_manifest_says_which_release_wrote_it_and_how_to_make_it_again(name: str) -> None:
    assert f"Written by Apache Kafka {name.partition('-')[2]} " in golden.manifest(name)
    assert f"`python -m tests.golden.make {name}`" in golden.manifest(name)


@pytest.mark.parametrize("name", golden.names())
def test_a_pack_holds_no_path_of_the_machine_that_made_it(name: str) -> None:
    files = [path for path in golden.shared(name).rglob("*") if path.is_file()]
    for path in [*files, golden.PACKS / name / golden.MANIFEST]:
        assert not re.search(rb"/(tmp|home|root|Users|var)/", path.read_bytes()), path


def test_all_packs_together_are_small() -> None:
    sizes = [path.stat().st_size for path in golden.PACKS.rglob("*") if path.is_file()]
    assert sum(sizes) < PACKS_TOGETHER


def test_a_hole_reads_as_the_zeros_that_were_packed(tmp_path: Path) -> None:
    root = golden.unpack("unclean-4.3.1", tmp_path)
    index = root / "data/index-default-0/00000000000000000000.index"
    assert index.read_bytes() == bytes(10_485_760)
    assert (root / "data/.lock").read_bytes() == b""


@pytest.mark.parametrize("member", ["../outside", "/outside", "data/../../outside"])
def test_unpacking_refuses_to_leave_its_folder(member: str, tmp_path: Path, monkeypatch) -> None:
    pack = tmp_path / "packs" / "evil"
    pack.mkdir(parents=True)
    with tarfile.open(pack / golden.ARCHIVE, "w:xz") as archive:
        archive.addfile(tarfile.TarInfo(member), io.BytesIO(b""))
    monkeypatch.setattr(golden, "PACKS", tmp_path / "packs")
    with pytest.raises(ValueError, match="not a plain file"):
        golden.unpack("evil", tmp_path / "target")
    assert not (tmp_path / "outside").exists()


# --------------------------------------------------------------------------------- what they hold


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("unclean-4.3.1", "codecs.java"),
        ("unclean-4.3.1", "codecs.librdkafka"),
        ("clean-3.9.1", "codecs"),
        ("clean-3.9.1", "codecs-librdkafka"),
        ("cleaner-4.3.1", "compacted.codecs"),
    ],
)
def test_partitions_0_to_4_are_none_gzip_snappy_lz4_zstd(name: str, topic: str) -> None:
    found = [{each.codec for each in partition_entries(name, f"{topic}-{p}")} for p in range(5)]
    assert found == [{codec} for codec in CODECS]


def test_snappy_is_framed_by_java_and_raw_by_librdkafka() -> None:
    xerial = b"\x82SNAPPY\x00"
    java = partition_entries("unclean-4.3.1", "codecs.java-2")
    librdkafka = partition_entries("unclean-4.3.1", "codecs.librdkafka-2")
    assert all(each.payload.startswith(xerial) for each in java)
    assert not any(each.payload.startswith(xerial) for each in librdkafka)


@pytest.mark.parametrize("name", ["legacy-2.8.2", "legacy-0.10.2.2"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_there_in_every_codec_they_had(name: str, magic: int) -> None:
    for partition, codec in enumerate(CODECS[:4]):
        found = partition_entries(name, f"magic-{magic}-{partition}")
        assert {(each.magic, each.codec) for each in found} == {(magic, codec)}
    stamped = partition_entries(name, "magic-1.append-time-1")
    assert {(each.magic, each.codec, each.append_time) for each in stamped} == {(1, "gzip", True)}
    assert partition_entries(name, f"magic-{magic}.compacted-0")


def test_one_log_holds_all_three_magics() -> None:
    found = partition_entries("legacy-2.8.2", "magic-0.mixed-0")
    assert sorted({each.magic for each in found}) == [0, 1, 2]


def test_null_and_empty_are_both_there() -> None:
    rows = received("unclean-4.3.1", "nulls-and-empties")
    assert {(row["key"], row["value"]) for row in rows} > {
        (None, None),
        (None, ""),
        ("", None),
        ("", ""),
    }
    assert rows[-1]["headers"][:2] == [["null", None], ["empty", ""]]


def test_both_timestamp_types_are_there() -> None:
    stamped = partition_entries("unclean-4.3.1", "append-time-0")
    assert all(each.append_time for each in stamped)
    kinds = {row["timestamp_type"] for row in golden.expected("unclean-4.3.1") if "offset" in row}
    assert kinds == {"CreateTime", "LogAppendTime"}


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("unclean-4.3.1", "transactions"),
        ("unclean-3.9.1", "transactions"),
        ("clean-3.9.1", "transactions"),
        ("cleaner-4.3.1", "open-at-stop"),
        ("legacy-2.8.2", "transactions"),
    ],
)
def test_a_committed_and_an_open_transaction_are_there(name: str, topic: str) -> None:
    ends = {
        row["isolation"]: row["end_offset"]
        for row in golden.expected(name)
        if row["topic"] == topic and row["partition"] == 0 and "end_offset" in row
    }
    assert ends["read_committed"] < ends["read_uncommitted"]
    assert received(name, topic, "read_committed")
    found = partition_entries(name, f"{topic}-0")
    assert any(each.control for each in found)
    assert any(each.transactional and not each.control for each in found)


@pytest.mark.parametrize("name", ["unclean-4.3.1", "unclean-3.9.1", "clean-3.9.1", "legacy-2.8.2"])
def test_an_aborted_transaction_is_there(name: str) -> None:
    committed = {row["offset"] for row in received(name, "transactions", "read_committed")}
    below = [row for row in received(name, "transactions") if row["offset"] < max(committed)]
    assert {row["offset"] for row in below} - committed
    assert any(path.stat().st_size for path in golden.shared(name).rglob("*.txnindex"))


def test_the_live_cleaner_left_horizons_empty_batches_and_gaps() -> None:
    name = "cleaner-4.3.1"
    tombstones = partition_entries(name, "compacted.tombstones-0")
    assert any(each.delete_horizon for each in tombstones)
    assert [row["value"] for row in received(name, "compacted.tombstones")].count(None) == 3
    assert None not in [row["value"] for row in received(name, "compacted.no-retention")]
    producers = partition_entries(name, "compacted.producers-0")
    assert [each.record_count for each in producers].count(0) == 2
    markers = [each for each in partition_entries(name, "compacted.transactions-0") if each.control]
    assert any(each.delete_horizon for each in markers)
    assert any(golden.shared(name).glob("data-*/compacted.aborted-0/*.txnindex"))
    offsets = [row["offset"] for row in received(name, "compacted.tombstones")]
    assert len(offsets) < offsets[-1] - offsets[0] + 1


@pytest.mark.parametrize(
    "name", ["cleaner-4.3.1", "clean-3.9.1", "legacy-2.8.2", "legacy-0.10.2.2"]
)
def test_the_cleaner_checkpoint_names_the_compacted_topics(name: str) -> None:
    lines = [
        line
        for log_dir in golden.log_dirs(golden.shared(name))
        for line in (log_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    ]
    assert any(re.fullmatch(r"\S*compacted\S* 0 [1-9]\d*", line) for line in lines)


def test_group_records_of_every_type_4_3_writes_are_there() -> None:
    found = types_and_versions("groups-4.3.1", "__consumer_offsets")
    written = {type_ for type_, version in found if version != -1}
    deleted = {type_ for type_, version in found if version == -1}
    assert written == {1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23}
    assert deleted >= {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15}
    assert (1, 4) in found
    assert (2, 3) in found


def test_share_group_state_has_snapshots_updates_and_tombstones() -> None:
    found = types_and_versions("groups-4.3.1", "__share_group_state")
    assert found.keys() == {(0, 0), (1, 0), (0, -1)}


def test_3_9_writes_older_versions_of_the_coordinator_records() -> None:
    found = types_and_versions("clean-3.9.1", "__consumer_offsets")
    assert found.keys() >= {(1, 3), (1, -1), (2, 3), (2, -1), (3, 0), (4, 0), (8, 0)}
    assert types_and_versions("clean-3.9.1", "__transaction_state").keys() == {(0, 0)}
    assert types_and_versions("unclean-4.3.1", "__transaction_state").keys() == {(0, 1)}


def test_both_kinds_of_quorum_are_there() -> None:
    versions = {
        name: re.search(r'"data_version":(\d)', state.read_text()).group(1)
        for name in golden.names()
        for state in golden.shared(name).rglob("quorum-state")
    }
    assert versions == {
        "small-4.3.1": "1",
        "unclean-4.3.1": "1",
        "groups-4.3.1": "1",
        "clean-3.9.1": "1",
        "cleaner-4.3.1": "0",
        "unclean-3.9.1": "0",
    }


def test_names_of_every_afterlife_are_there() -> None:
    root = golden.shared("cleaner-4.3.1")
    assert [path.name for path in golden.log_dirs(root)] == ["data-1", "data-2"]
    assert len(list(root.glob("data-*/deleted.topic-?.*-delete"))) == 2
    assert len(list(root.glob("data-*/moving-0.*-future"))) == 1
    assert {path.name for path in root.glob("data-*/expired-0/*.log.deleted")} == {
        f"{base:020}.log.deleted" for base in range(3)
    }
    assert len(list(root.glob("data-*/audit-delete-0"))) == 1
    assert len(list(root.glob("data-*/orders-0-0"))) == 1


@pytest.mark.parametrize("name", golden.names())
def test_a_clean_stop_left_its_marker_and_a_kill_did_not(name: str) -> None:
    killed = name in {"unclean-4.3.1", "unclean-3.9.1", "legacy-0.10.2.2"}
    for log_dir in golden.log_dirs(golden.shared(name)):
        assert (log_dir / ".kafka_cleanshutdown").exists() is not killed
    zero_tails = [
        path
        for path in golden.shared(name).rglob("*.index")
        if path.stat().st_size >= 65_536 and "-delete" not in path.parent.name
    ]
    assert bool(zero_tails) is killed


@pytest.mark.parametrize(
    ("name", "topic", "start"),
    [("unclean-4.3.1", "rolled-by.time", 7), ("clean-3.9.1", "tiny.segments", 5)],
)
def test_delete_records_moved_the_log_start_inside_a_segment(
    name: str, topic: str, start: int
) -> None:
    (log_dir,) = golden.log_dirs(golden.shared(name))
    checkpoint = (log_dir / "log-start-offset-checkpoint").read_text().splitlines()
    assert f"{topic} 0 {start}" in checkpoint
    bases = sorted(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log"))
    assert bases[0] < start < bases[1]
    assert len(bases) >= 4


def test_a_restart_left_two_leader_epochs() -> None:
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    lines = (log_dir / "transactions-0/leader-epoch-checkpoint").read_text().splitlines()
    assert lines[:2] == ["0", "2"]


def test_the_checkpoints_of_a_killed_broker_are_behind_the_log() -> None:
    (log_dir,) = golden.log_dirs(golden.shared("unclean-3.9.1"))
    checkpoint = (log_dir / "recovery-point-offset-checkpoint").read_text()
    recovery_point = int(re.search(r"^rolled 0 (\d+)$", checkpoint, re.MULTILINE).group(1))
    assert 0 < recovery_point < received("unclean-3.9.1", "rolled")[-1]["offset"]


@pytest.mark.oracle
def test_the_metadata_log_and_its_snapshots_hold_every_kind_of_change(oracle) -> None:
    metadata = golden.shared("cleaner-4.3.1") / "data-1/__cluster_metadata-0"
    logs = sorted(metadata.glob("*.log"))
    snapshots = sorted(metadata.glob("*-*.checkpoint"))
    assert len(logs) > 3
    assert len(snapshots) > 1
    assert _metadata_types(oracle, logs) >= {
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_CHANGE_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "FEATURE_LEVEL_RECORD",
        "CLIENT_QUOTA_RECORD",
        "PRODUCER_IDS_RECORD",
        "ACCESS_CONTROL_ENTRY_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "NO_OP_RECORD",
    }
    assert _metadata_types(oracle, snapshots[-1:]) >= {
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "CONFIG_RECORD",
        "ACCESS_CONTROL_ENTRY_RECORD",
        "CLIENT_QUOTA_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
    }


def _metadata_types(oracle, files: list[Path]) -> set[str]:
    dump = oracle.dump("--cluster-metadata-decoder", "--files", ",".join(map(str, files)))
    return set(re.findall(r'"type":"([A-Z_]+)","version"', dump.stdout))


@pytest.mark.oracle
@pytest.mark.parametrize("name", golden.names())
def test_kafka_finds_every_batch_valid(name: str, oracle) -> None:
    """All segments, the ones on their way out as well; a checkpoint of zero bytes is no log."""
    logs = [path for path in golden.shared(name).rglob("*.log") if path.stat().st_size]
    dump = oracle.dump("--files", ",".join(map(str, logs)))
    assert "isvalid: true" in dump.stdout
    assert "isvalid: false" not in dump.stdout
