"""Every finding there is: a directory that has it, and just it."""

import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.checksum import crc32c
from kafka_format.record import SimpleRecord
from kafka_log.checks.rules import RULES
from tests import golden
from tests.kafka_log.inventory.test_cluster_metadata import config, log, topic
from tests.oracle.logs import LogPlan
from tests.pipelines.in_process import read_table

SEGMENT = "00000000000000000000"
TIME = 1_700_000_000_000
ZEROS = bytes(160)


def batch(offset: int, key: bytes | None = b"k", value: bytes | None = b"v") -> bytes:
    """A batch with one record: 70 bytes if key and value have one each."""
    return encode_batch([SimpleRecord(TIME + offset, key, value)], base_offset=offset)


def snapshot(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c(body)) + body


PRODUCER = struct.pack(">qhiqiqiq", 7, 0, 4, 3, 1, TIME, -1, -1)
CLUSTER = "__cluster_metadata-0"


class Case(NamedTuple):
    """A file of a log dir that is otherwise sound, and where the finding is."""

    name: str
    data: bytes
    position: int | None
    offset: int | None
    found: str
    expected: str
    others: tuple[str, ...] = ()
    """What else follows from it, or from the clean stop."""
    is_clean: bool = False
    """Whether the broker stopped cleanly: an index that a kill left open is not judged."""


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


LOG = b"".join(map(batch, range(3)))
FLIPPED = changed(LOG, 70 + 61 + 7, b"x")
"""The value of the second record, another letter."""
MISCOUNTED = assemble(BatchHeader.unpack(LOG, 70)._replace(record_count=2), LOG[131:140])
STORED, COMPUTED = struct.unpack_from(">I", FLIPPED, 87)[0], crc32c(FLIPPED[91:140])
INDEX = f"orders-0/{SEGMENT}.index"
TIME_INDEX = f"orders-0/{SEGMENT}.timeindex"
TRANSACTIONS = f"orders-0/{SEGMENT}.txnindex"
SNAPSHOT = "orders-0/00000000000000000002.snapshot"
ABORTED = struct.pack(">hqqqq", 0, 7, 0, 2, 0)
GROUPS = f"__consumer_offsets-0/{SEGMENT}.log"
REMOTE = f"__remote_log_metadata-0/{SEGMENT}.log"

CASES: dict[str, Case] = {
    "LOG001": Case(
        f"orders-0/{SEGMENT}.log",
        FLIPPED,
        87,
        1,
        f"stored crc {STORED:#010x}",
        f"computed crc {COMPUTED:#010x}",
    ),
    "LOG002": Case(
        f"orders-0/{SEGMENT}.log",
        changed(LOG, 70 + 8, struct.pack(">i", 5)),
        70,
        1,
        "batch length 5",
        "49 or more",
    ),
    "LOG003": Case(
        f"orders-0/{SEGMENT}.log",
        LOG[:70] + MISCOUNTED + LOG[140:],
        140,
        1,
        "the end of the records in record 1 of 2",
        "a whole record",
    ),
    "LOG007": Case(
        f"orders-0/{SEGMENT}.log",
        batch(-5) + LOG,
        0,
        -5,
        "a batch at offset -5",
        "offset 0 or more, the base offset of its segment",
    ),
    "LOG004": Case(
        f"orders-0/{SEGMENT}.log", LOG[:200], 140, 2, "60 bytes up to the end", "a batch of 70"
    ),
    "LOG005": Case(
        f"orders-0/{SEGMENT}.log", LOG + bytes(40), 210, 3, "batch length 0", "14 or more"
    ),
    "IDX001": Case(
        INDEX,
        struct.pack(">iiii", 1, 70, 1, 140) + ZEROS,
        8,
        None,
        "offset 1, position 140 (out of order)",
        "an entry after offset 1, position 70",
        ("SNP008",),
        is_clean=True,
    ),
    "IDX002": Case(INDEX, struct.pack(">iii", 1, 70, 2), 8, None, "4 bytes", "an entry of 8"),
    "IDX003": Case(
        INDEX,
        struct.pack(">iiqii", 1, 70, 0, 2, 140),
        16,
        None,
        "8 bytes after zeros",
        "zeros to the end",
    ),
    "TIX001": Case(
        TIME_INDEX,
        struct.pack(">qiqi", TIME, 0, TIME - 1, 1) + ZEROS,
        12,
        None,
        f"timestamp {TIME - 1}, offset 1 (out of order)",
        f"an entry after timestamp {TIME}, offset 0",
        ("SNP008",),
        is_clean=True,
    ),
    "TIX002": Case(
        TIME_INDEX, struct.pack(">qiq", TIME, 0, TIME), 12, None, "8 bytes", "an entry of 12"
    ),
    "TIX003": Case(
        TIME_INDEX,
        struct.pack(">qi", TIME, 0) + bytes(24) + struct.pack(">qi", TIME + 1, 1),
        36,
        None,
        "12 bytes after zeros",
        "zeros to the end",
    ),
    "TXN001": Case(
        TRANSACTIONS, ABORTED + changed(ABORTED, 0, b"\1"), 34, None, "version 256", "version 0"
    ),
    "TXN002": Case(
        TRANSACTIONS,
        ABORTED * 2,
        34,
        None,
        "version 0, producer_id 7, first_offset 0, last_offset 2, last_stable_offset 0",
        "a last offset above 2",
    ),
    "TXN003": Case(
        TRANSACTIONS, ABORTED + b"\0\0\0", 34, None, "3 bytes (partial entry)", "an entry of 34"
    ),
    "SNP001": Case(
        SNAPSHOT,
        changed(snapshot(struct.pack(">i", 1) + PRODUCER), 2, struct.pack(">I", 1)),
        2,
        None,
        "crc 0x00000001",
        f"{crc32c(struct.pack('>i', 1) + PRODUCER):#010x}",
    ),
    "SNP002": Case(
        SNAPSHOT,
        snapshot(struct.pack(">i", 2) + PRODUCER),
        6,
        None,
        "2 entries announced, 46 bytes left",
        "46 each",
    ),
    "SNP003": Case(
        SNAPSHOT, snapshot(struct.pack(">i", 0), version=2), 0, None, "version 2", "version 1"
    ),
    "SNP004": Case(
        SNAPSHOT,
        snapshot(struct.pack(">i", 1) + PRODUCER + b"more"),
        56,
        None,
        "4 bytes after 1 entries",
        "none",
        ("SNP005",),
    ),
    "LEP001": Case(
        "orders-0/leader-epoch-checkpoint", b"0\n1\n0 x\n", 4, None, "'0 x'", "epoch start_offset"
    ),
    "CKP001": Case(
        "recovery-point-offset-checkpoint",
        b"0\n2\norders 0 3\n",
        2,
        None,
        "a count of 2",
        "1, the rows that follow",
    ),
    "MET001": Case(
        "orders-0/partition.metadata",
        b"version: 0\ntopic_id: ?",
        11,
        None,
        "'topic_id: ?'",
        "topic_id: <uuid other than zero>",
    ),
    "MET002": Case(
        "meta.properties",
        b"version=1\nnode.id=1\n",
        0,
        None,
        "no cluster.id",
        "cluster.id=… in version 1",
    ),
    "MET003": Case(
        ".kafka_cleanshutdown",
        b"{",
        0,
        None,
        "1 bytes in another format",
        "a JSON object with a brokerEpoch",
        ("SNP008",),
    ),
    "MET004": Case(f"{CLUSTER}/quorum-state", b"", 0, None, "an empty file", "a line of JSON"),
    "REC001": Case(
        GROUPS,
        batch(0, b"\0\1\0\1g\0\1t\0\0\0\0", None) + batch(1, b"\0\1\0\5g"),
        80,
        1,
        "1 bytes left",
        "5 for OffsetCommitKey.group",
    ),
    "REC002": Case(GROUPS, batch(0, b"\0\x63", b"\0\0"), 0, 0, "type 99", "a known type"),
    "REC003": Case(
        f"{CLUSTER}/{SEGMENT}.log", batch(0, None, b"\2\0\0"), 0, 0, "frame version 2", "1"
    ),
    "REC004": Case(
        f"{CLUSTER}/{SEGMENT}.log",
        batch(0, None, b"\1\x63\0"),
        0,
        0,
        "api key 99",
        "a known api key",
    ),
    "REC005": Case(REMOTE, batch(0, None, b"\2\0\0"), 0, 0, "frame version 2", "1"),
    "REC006": Case(REMOTE, batch(0, None, b"\1\x63\0"), 0, 0, "api key 99", "a known api key"),
}


def log_dir(path: Path) -> Path:
    """One partition of three batches, stopped in order by a broker of KRaft."""
    partition = path / "data" / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{SEGMENT}.log").write_bytes(LOG)
    (partition / f"{SEGMENT}.index").write_bytes(struct.pack(">ii", 2, 140))
    (partition / f"{SEGMENT}.timeindex").write_bytes(struct.pack(">qi", TIME + 2, 2))
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    (path / "data" / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\norders 0 3\n")
    return path / "data"


def write(root: Path, name: str, data: bytes) -> Path:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_sound_directory_has_no_findings(tmp_path):
    assert read_table(log_dir(tmp_path), "findings") == []


@pytest.mark.parametrize("rule", CASES)
def test_damage_is_one_finding_with_its_place(rule, tmp_path):
    case = CASES[rule]
    root = log_dir(tmp_path)
    path = write(root, case.name, case.data)
    topic = Path(case.name).parent.name.removesuffix("-0") or None
    if case.is_clean:
        write(root, ".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":1}')
    rows = read_table(root, "findings")
    assert [row["id"] for row in rows if row["id"] != rule] == [*case.others]
    assert [row for row in rows if row["id"] == rule] == [
        {
            "id": rule,
            "severity": str(RULES[rule].severity),
            "topic": topic,
            "partition": None if topic is None else 0,
            "path": str(path),
            "path_base64": None,
            "position": case.position,
            "offset": case.offset,
            "found": case.found,
            "expected": case.expected,
            "on_restart": RULES[rule].on_restart,
            "what_to_do": RULES[rule].what_to_do,
        }
    ]


def unreadable(root: Path) -> Path:
    path = root / "orders-0" / "00000000000000000005.log"
    path.symlink_to("nowhere")
    return path


def other_directory(root: Path) -> Path:
    path = root / "backup"
    path.mkdir()
    return path


def partition_twice(root: Path) -> Path:
    second = root.parent / "data-2"
    (second / "orders-0").mkdir(parents=True)
    for directory in (root, second):
        meta = b"version=1\nnode.id=1\ncluster.id=c\n"
        (directory / "meta.properties").write_bytes(meta)
    return second / "orders-0"


def directory_inside(root: Path) -> Path:
    path = root / "orders-0" / "old"
    path.mkdir()
    return path


def refused_setting(root: Path) -> Path:
    directory = root / CLUSTER
    directory.mkdir()
    metadata = log(topic("orders", uuid.UUID(int=1)), config(2, "orders", "retention.ms", "abc"))
    (directory / f"{SEGMENT}.log").write_bytes(metadata)
    return directory


DIRECTORIES: dict[str, tuple[Callable[[Path], Path], str, str | None]] = {
    "DIR001": (unreadable, "00000000000000000005.log -> nowhere: a link to nothing", "orders"),
    "DIR002": (other_directory, "a directory that is not a partition directory", None),
    "DIR003": (partition_twice, "the same partition as ", "orders"),
    "DIR004": (directory_inside, "a directory", "orders"),
    "MET005": (refused_setting, "topic orders: retention.ms=abc", "orders"),
}


@pytest.mark.parametrize("rule", DIRECTORIES)
def test_what_directories_tell_is_a_finding(rule, tmp_path):
    make, found, topic = DIRECTORIES[rule]
    path = make(log_dir(tmp_path))
    (finding,) = read_table(tmp_path, "findings")
    assert (finding["id"], finding["path"], finding["topic"]) == (rule, str(path), topic)
    assert finding["found"].startswith(found)
    assert finding["position"] is finding["offset"] is None


@pytest.mark.parametrize("entries", [0, 1])
def test_a_time_index_that_ends_before_its_log_is_a_finding(tmp_path, entries):
    """A second segment makes the first one full, whose index then ends with its largest time."""
    root = log_dir(tmp_path)
    index = struct.pack(">qi", TIME + 1, 1)[: 12 * entries]
    path = write(root, TIME_INDEX, index)
    assert read_table(root, "findings") == []  # as that of a segment which may grow yet
    write(root, "orders-0/00000000000000000003.log", batch(3))
    (finding,) = read_table(root, "findings")
    assert (finding["id"], finding["path"]) == ("TIX004", str(path))
    later = (12, 2, f"timestamp {TIME + 1}, offset 1 at the end", 140, TIME + 2)
    if not entries:
        later = (0, 0, "no entry", 0, TIME)
    position, offset, found, at, time = later
    assert (finding["position"], finding["offset"]) == (position, offset)
    assert finding["found"] == found
    assert finding["expected"] == f"timestamp {time} of the batch at position {at}"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("close", ["clean", "crash"])
def test_no_time_index_of_kafkas_ends_before_its_log(oracle, tmp_path, seed, close):
    """Records of up to five seconds earlier than those before them, in dozens of segments."""
    plan = LogPlan(seed=seed, close=close, gaps=seed == 2)
    built = oracle.build_log(tmp_path / "orders-0", plan)
    assert len(built.segments()) > 20
    assert read_table(tmp_path, "findings") == []


def test_damage_in_the_middle_does_not_hide_damage_behind_it(tmp_path):
    root = log_dir(tmp_path)
    log = changed(LOG, 8, struct.pack(">i", 2**30)) + batch(3)[:50]
    write(root, f"orders-0/{SEGMENT}.log", log)
    found = [(row["id"], row["position"], row["offset"]) for row in read_table(root, "findings")]
    assert found == [("LOG002", 0, None), ("LOG004", 210, 3)]


def test_a_batch_that_says_it_is_longer_is_one_finding_and_hides_nothing(tmp_path):
    root = log_dir(tmp_path)
    longer = changed(LOG, 8, struct.pack(">i", 70 - 12 + 20))
    write(root, f"orders-0/{SEGMENT}.log", changed(longer, 140 + 61 + 7, b"x"))
    found = [(row["id"], row["position"], row["offset"]) for row in read_table(root, "findings")]
    assert found == [("LOG001", 17, 0), ("LOG001", 140 + 17, 2)]


def test_without_verification_a_wrong_checksum_is_no_finding(tmp_path):
    root = log_dir(tmp_path)
    write(root, f"orders-0/{SEGMENT}.log", FLIPPED + batch(3)[:30])
    found = [row["id"] for row in read_table(root, "findings", verifyChecksums="false")]
    assert found == ["LOG004"]


def test_findings_of_a_topic_alone(tmp_path):
    root = log_dir(tmp_path)
    write(root, f"orders-0/{SEGMENT}.log", FLIPPED)
    write(root, f"other-3/{SEGMENT}.log", FLIPPED)
    write(root, "recovery-point-offset-checkpoint", b"x")
    assert len(read_table(root, "findings")) == 3
    (only,) = read_table(root, "findings", topics="oth*")
    assert (only["topic"], only["partition"]) == ("other", 3)
    (only,) = read_table(root, "findings", partitions="0")
    assert (only["topic"], only["partition"]) == ("orders", 0)


@pytest.mark.parametrize("name", golden.names())
def test_what_real_brokers_left_is_sound(name):
    assert read_table(golden.shared(name), "findings") == []


def test_a_file_that_may_not_be_read_is_a_finding_of_its_own(tmp_path, monkeypatch):
    root = log_dir(tmp_path)
    from pipelines.source.storage import Storage

    opened = Storage.open

    def refuse(self: Storage, path: str) -> Any:
        if path.endswith(".index"):
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path)

    monkeypatch.setattr(Storage, "open", refuse)
    (finding,) = read_table(root, "findings")
    assert (finding["id"], finding["path"]) == ("DIR001", str(root / INDEX))
    assert finding["found"] == "Permission denied"


def test_a_sparse_index_beyond_what_kafka_can_write_is_a_finding(tmp_path):
    root = log_dir(tmp_path)
    index = root / "orders-0" / f"{SEGMENT}.index"
    with index.open("r+b") as file:
        file.truncate(8 << 30)
    assert [row["id"] for row in read_table(root, "findings")] == ["DIR006"]
