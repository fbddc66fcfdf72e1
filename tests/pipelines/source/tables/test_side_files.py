"""Entries of side files as rows: Kafka's own classes read the same; damage goes by mode."""

import base64
import struct
from pathlib import Path
from typing import Any

import pytest

from kafka_format.checksum import crc32c
from kafka_log.inventory.inventory import CHECKPOINTS
from kafka_log.names import (
    DirectoryKind,
    FileKind,
    FileState,
    parse_directory_name,
    parse_file_name,
)
from pipelines.source.options import parse_options
from pipelines.source.schema import column_names
from pipelines.source.storage import Storage
from pipelines.source.tables import reader_of
from pipelines.source.tables.side_files import DamageError
from tests import golden
from tests.oracle.client import Oracle
from tests.pipelines.in_process import read_table

SEGMENT = "00000000000000001000"
TIME = 1_700_000_000_000
TABLES = {
    "offset_index": ("offset_index", [FileKind.OFFSET_INDEX]),
    "time_index": ("time_index", [FileKind.TIME_INDEX]),
    "transaction_index": ("transaction_index", [FileKind.TRANSACTION_INDEX]),
    "producer_snapshots": ("producer_snapshot", [FileKind.PRODUCER_SNAPSHOT]),
    "leader_epochs": ("leader_epoch_checkpoint", [FileKind.LEADER_EPOCH_CHECKPOINT]),
    "checkpoints": ("offset_checkpoint", list(CHECKPOINTS)),
}
"""What the oracle calls each, and the files it is of."""
MOST = 100_000
"""Bytes of a file: in a preallocated index of 10 MiB the oracle sees a million entries."""


def files(pack: str, kinds: list[FileKind]) -> list[Path]:
    found = []
    for path in sorted(golden.shared(pack).rglob("*")):
        name, directory = parse_file_name(path.name), parse_directory_name(path.parent.name)
        is_live = name.state is FileState.LIVE and directory.kind in (
            DirectoryKind.PARTITION,
            DirectoryKind.UNKNOWN,  # the log dir itself
        )
        if path.is_file() and name.kind in kinds and is_live:
            found.append(path)
    return found


def kafkas(oracle: Oracle, table: str, path: Path) -> list[tuple[Any, ...]]:
    """What Kafka's class tells of a file, without the zeros behind the entries of an index.

    One slot of zeros alone is an entry: in the pack is a record of 1970.
    """
    kind, _ = TABLES[table]
    entries = oracle.read_file(kind, path)["entries"]
    for entry in entries:
        entry.pop("batches", None)
        if table == "producer_snapshots":
            if entry["last_offset"] < 0:
                entry.update(last_sequence=None, last_offset=None, offset_delta=None)
            if entry["current_txn_first_offset"] < 0:
                entry["current_txn_first_offset"] = None
    if table in ("offset_index", "time_index") and len(entries) > 1:
        counts = "position" if table == "offset_index" else "timestamp"
        entries = [entry for entry in entries if entry[counts] > 0]
    return sorted((tuple(sorted(entry.items())) for entry in entries), key=repr)


def ours(rows: list[dict[str, Any]], names: set[str]) -> list[tuple[Any, ...]]:
    plain = [row | {"timestamp": row.get("timestamp_ms")} for row in rows]
    tuples = [
        tuple(sorted((name, value) for name, value in row.items() if name in names))
        for row in plain
    ]
    return sorted(tuples, key=repr)


FIELDS = {
    "offset_index": {"offset", "position"},
    "time_index": {"timestamp", "offset"},
    "transaction_index": {
        *("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    },
    "producer_snapshots": {
        *("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta"),
        *("timestamp", "coordinator_epoch", "current_txn_first_offset"),
    },
    "leader_epochs": {"epoch", "start_offset"},
    "checkpoints": {"topic", "partition", "offset"},
}


@pytest.mark.parametrize("pack", golden.names())
@pytest.mark.parametrize("table", TABLES)
def test_rows_are_what_kafka_reads_of_every_file_a_broker_left(oracle, pack, table):
    rows = read_table(golden.shared(pack), table)
    by_path: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_path.setdefault(row["path"], []).append(row)
    paths = files(pack, TABLES[table][1])
    assert by_path.keys() <= set(map(str, paths))
    for path in paths:
        if path.stat().st_size < MOST:
            expected = kafkas(oracle, table, path)
            assert ours(by_path.get(str(path), []), FIELDS[table]) == expected, path


@pytest.mark.parametrize("table", TABLES)
def test_rows_say_where_they_come_from(table):
    rows = read_table(golden.shared("unclean-4.3.1"), table)
    assert rows
    for row in rows:
        path = Path(row["path"])
        directory, name = parse_directory_name(path.parent.name), parse_file_name(path.name)
        if table == "checkpoints":
            assert (row["checkpoint"], row["log_dir"]) == (path.name, str(path.parent))
        else:
            assert (row["topic"], row["partition"]) == (directory.topic, directory.partition)
        assert row.get("segment", row.get("snapshot_offset", name.offset)) == name.offset
    if "entry" in rows[0]:
        firsts = [row for row in rows if row["entry"] == 0]
        assert len({row["path"] for row in rows}) == len(firsts)


@pytest.mark.parametrize("table", TABLES)
def test_columns_can_be_chosen(table):
    root = golden.shared("unclean-4.3.1")
    rows = read_table(root, table)
    for name in column_names(table):
        assert read_table(root, table, columns=name) == [{name: row[name]} for row in rows]


def test_topics_and_partitions_choose_rows():
    root = golden.shared("unclean-4.3.1")
    epochs = read_table(root, "leader_epochs", topics="codecs.*", partitions="0")
    assert {row["topic"] for row in epochs} == {
        "codecs.java",
        "codecs.kafka-python",
        "codecs.librdkafka",
    }
    assert {row["partition"] for row in epochs} == {0}
    rows = read_table(root, "checkpoints", topics="rolled-by.time")
    assert {row["topic"] for row in rows} == {"rolled-by.time"}
    assert ("log-start-offset-checkpoint", 0, 7) in {
        (row["checkpoint"], row["partition"], row["offset"]) for row in rows
    }


def test_rows_do_not_depend_on_how_files_are_packed():
    root = golden.shared("unclean-4.3.1")
    together = read_table(root, "transaction_index")
    assert len(together) == 12
    assert read_table(root, "transaction_index", maxSplitBytes="1") == together


# --- damage -------------------------------------------------------------------------------------


def log_dir(tmp_path: Path, name: str, data: bytes) -> Path:
    """A log dir of one partition and one more file, in the log dir if its name has a slash."""
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{SEGMENT}.log").touch()
    path = (
        tmp_path / "data" / name
        if "checkpoint" in name and "epoch" not in name
        else partition / name
    )
    path.write_bytes(data)
    return tmp_path / "data"


PRODUCER = struct.pack(">qhiqiqiq", 7, 2, -1, -1, 0, TIME, 5, 990)
SNAPSHOT = struct.pack(">i", 1) + PRODUCER
ABORTED = struct.pack(">hqqqq", 0, 7, 1000, 1002, 1000)
DAMAGED: dict[str, tuple[str, bytes, list[dict[str, Any]], bool, str]] = {
    "offset_index": (
        f"{SEGMENT}.index",
        struct.pack(">iiiiii", 5, 70, 9, 140, 9, 210),
        [{"offset": 1005, "position": 70}, {"offset": 1009, "position": 140}],
        True,
        (
            "@16: IDX001: found offset 1009, position 210 (out of order), "
            "expected an entry after offset 1009, position 140"
        ),
    ),
    "time_index": (
        f"{SEGMENT}.timeindex",
        struct.pack(">qiq", TIME, 5, 1),
        [{"timestamp_ms": TIME, "offset": 1005}],
        True,
        "@12: TIX002: found 8 bytes, expected an entry of 12",
    ),
    "transaction_index": (
        f"{SEGMENT}.txnindex",
        ABORTED + b"\1" + ABORTED[1:],
        [{"producer_id": 7, "first_offset": 1000, "last_offset": 1002, "last_stable_offset": 1000}],
        True,
        "@34: TXN001: found version 256, expected version 0",
    ),
    "producer_snapshots": (
        f"{SEGMENT}.snapshot",
        struct.pack(">hI", 1, crc32c(SNAPSHOT) ^ 1) + SNAPSHOT,
        [
            {
                "snapshot_offset": 1000,
                "producer_id": 7,
                "producer_epoch": 2,
                "last_sequence": None,
                "last_offset": None,
                "offset_delta": None,
                "timestamp_ms": TIME,
                "coordinator_epoch": 5,
                "current_txn_first_offset": 990,
                "is_valid": False,
            }
        ],
        False,
        f"@2: SNP001: found crc {crc32c(SNAPSHOT) ^ 1:#010x}, expected {crc32c(SNAPSHOT):#010x}",
    ),
    "leader_epochs": (
        "leader-epoch-checkpoint",
        b"0\n3\n0 1000\nx\n2 1004\n",
        [
            {"epoch": 0, "start_offset": 1000, "is_valid": False},
            {"epoch": 2, "start_offset": 1004, "is_valid": False},
        ],
        False,
        "@11: LEP001: found 'x', expected epoch start_offset",
    ),
    "checkpoints": (
        "recovery-point-offset-checkpoint",
        b"0\n2\norders 0 1000\n",
        [{"topic": "orders", "partition": 0, "offset": 1000, "is_valid": False}],
        False,
        "@2: CKP001: found a count of 2, expected 1, the rows that follow",
    ),
}
"""A damaged file, its rows, whether a broker reads these rows, and what FAILFAST says."""


@pytest.mark.parametrize("table", DAMAGED)
def test_permissive_gives_the_rows_that_are_there(tmp_path, table):
    name, data, expected, _, _ = DAMAGED[table]
    rows = read_table(log_dir(tmp_path, name, data), table)
    assert [{key: row[key] for key in expected[0]} for row in rows] == expected


@pytest.mark.parametrize("table", DAMAGED)
def test_dropmalformed_gives_the_rows_that_a_broker_reads(tmp_path, table):
    name, data, expected, are_read, _ = DAMAGED[table]
    rows = read_table(log_dir(tmp_path, name, data), table, mode="DROPMALFORMED")
    assert len(rows) == (len(expected) if are_read else 0)


@pytest.mark.parametrize("table", DAMAGED)
def test_failfast_says_what_is_wrong_and_where(tmp_path, table):
    name, data, _, _, message = DAMAGED[table]
    root = log_dir(tmp_path, name, data)
    with pytest.raises(DamageError) as raised:
        read_table(root, table, mode="FAILFAST")
    (path,) = root.rglob(name)
    assert str(raised.value) == f"{path}{message}"


def test_a_cut_snapshot_shows_its_whole_entries(tmp_path):
    body = struct.pack(">i", 2) + PRODUCER * 2
    cut = (struct.pack(">hI", 1, crc32c(body)) + body)[:-1]
    rows = read_table(log_dir(tmp_path, f"{SEGMENT}.snapshot", cut), "producer_snapshots")
    assert [(row["producer_id"], row["is_valid"]) for row in rows] == [(7, False)]


def test_the_zeros_of_a_preallocated_index_are_not_read(tmp_path):
    root = log_dir(tmp_path, f"{SEGMENT}.index", struct.pack(">ii", 5, 70))
    with (root / "orders-0" / f"{SEGMENT}.index").open("r+b") as file:
        file.truncate(10 * 1024 * 1024)
    options = parse_options({"path": str(root), "table": "offset_index"})
    reader = reader_of("offset_index")
    (split,) = reader.plan(options, Storage(options.paths))
    storages = []

    class Counting(Storage):
        def __init__(self, paths: Any) -> None:
            super().__init__(paths)
            storages.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.source.tables.side_files.Storage", Counting)
        (batch,) = reader.read(split, options)
    assert batch.num_rows == 1
    assert storages[0].bytes_read <= 64 * 1024


def test_files_that_are_to_be_deleted_show_only_if_they_are_named(tmp_path):
    root = log_dir(tmp_path, f"{SEGMENT}.index.deleted", struct.pack(">ii", 5, 70))
    assert read_table(root, "offset_index") == []
    (row,) = read_table(root / "orders-0" / f"{SEGMENT}.index.deleted", "offset_index")
    assert (row["offset"], row["position"]) == (1005, 70)


def test_a_name_that_is_no_utf8_is_shown_and_its_bytes_beside(tmp_path):
    partition = tmp_path / "data" / "or\udcffders-0"
    partition.mkdir(parents=True)
    (partition / f"{SEGMENT}.index").write_bytes(struct.pack(">ii", 5, 70))
    (row,) = read_table(tmp_path / "data", "offset_index")
    assert row["topic"] == "or\ufffdders"
    assert row["path"].endswith(f"or\ufffdders-0/{SEGMENT}.index")
    assert base64.b64decode(row["path_base64"]).endswith(
        b"/or\xffders-0/%s.index" % SEGMENT.encode()
    )
