"""Every side file against Apache Kafka's own classes, and every one that real brokers left.

Three questions: does Kafka read what we write, do we write the bytes that Kafka writes, and do we
read, of whole and of mutilated files, what Kafka reads and refuse what it refuses?
"""

import random
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format import java_text
from kafka_format.checkpoint_file import (
    OffsetCheckpoint,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
)
from kafka_format.clean_shutdown_file import (
    CleanShutdownFile,
    decode_clean_shutdown_file,
    encode_clean_shutdown_file,
)
from kafka_format.errors import FormatError
from kafka_format.leader_epoch_file import (
    EpochEntry,
    LeaderEpochCheckpoint,
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
)
from kafka_format.offset_index import (
    OffsetIndexEntry,
    OffsetIndexFile,
    decode_offset_index,
    decode_offset_index_columns,
    encode_offset_index,
)
from kafka_format.partition_metadata import (
    PartitionMetadata,
    decode_partition_metadata,
    encode_partition_metadata,
)
from kafka_format.producer_snapshot import (
    ProducerSnapshotEntry,
    ProducerSnapshotFile,
    decode_producer_snapshot,
    encode_producer_snapshot,
    iter_producer_snapshot,
)
from kafka_format.properties_file import (
    MetaProperties,
    decode_meta_properties,
    decode_properties,
    encode_meta_properties,
    encode_properties,
)
from kafka_format.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from kafka_format.time_index import (
    TimeIndexEntry,
    TimeIndexFile,
    decode_time_index,
    decode_time_index_columns,
    encode_time_index,
)
from kafka_format.transaction_index import (
    AbortedTransaction,
    TransactionIndexFile,
    decode_transaction_index,
    decode_transaction_index_columns,
    encode_transaction_index,
)
from kafka_log.names import FileKind, FileState, parse_directory_name, parse_file_name
from tests import golden
from tests.kafka_format import (
    damage,
    test_checkpoint_file,
    test_clean_shutdown_file,
    test_java_text,
    test_partition_metadata,
    test_producer_snapshot,
    test_properties_file,
    test_quorum_state,
    test_transaction_index,
)
from tests.oracle.client import Oracle, OracleError

SEGMENT = "00000000000000001000"
SEED = 20260101


# What the oracle's `read_file` tells of a file, made of our values.


def offset_index(data: bytes, base_offset: int) -> Any:
    slots = decode_offset_index_columns(data).tolist()
    return [{"offset": base_offset + offset, "position": position} for offset, position in slots]


def time_index(data: bytes, base_offset: int) -> Any:
    slots = decode_time_index_columns(data).tolist()
    return [{"timestamp": time, "offset": base_offset + offset} for time, offset in slots]


def transaction_index(data: bytes, _: int) -> Any:
    names = AbortedTransaction._fields
    slots = decode_transaction_index_columns(data).tolist()
    return [dict(zip(names, slot, strict=True)) for slot in slots]


def producer_snapshot(data: bytes, _: int) -> Any:
    return [entry._asdict() for entry in iter_producer_snapshot(decode_producer_snapshot(data))]


def offset_checkpoint(data: bytes, _: int) -> Any:
    offsets = decode_offset_checkpoint(data).offsets()
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in sorted(
            offsets.items(), key=lambda item: f"{item[0][0]}-{item[0][1]}"
        )
    ]


def leader_epochs(data: bytes, _: int) -> Any:
    return [entry._asdict() for entry in decode_leader_epoch_checkpoint(data).entries]


def partition_metadata(data: bytes, _: int) -> Any:
    metadata = decode_partition_metadata(data)
    return {"version": metadata.version, "topic_id": java_text.uuid_text(metadata.topic_id)}


def meta_properties(data: bytes, _: int) -> Any:
    meta = decode_meta_properties(data)
    directory_id = meta.directory_id
    return {
        "version": meta.version,
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": None if directory_id is None else java_text.uuid_text(directory_id),
        "properties": decode_properties(data).values(),
    }


def clean_shutdown(data: bytes, _: int) -> Any:
    return {"broker_epoch": decode_clean_shutdown_file(data).broker_epoch}


def quorum_state(data: bytes, _: int) -> Any:
    state = decode_quorum_state(data)
    directory_id = uuid.UUID(int=0) if state.voted_id == -1 else state.voted_directory_id
    return {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": java_text.uuid_text(directory_id),
    }


READERS: dict[str, Callable[[bytes, int], Any]] = {
    "offset_index": offset_index,
    "time_index": time_index,
    "transaction_index": transaction_index,
    "producer_snapshot": producer_snapshot,
    "offset_checkpoint": offset_checkpoint,
    "leader_epoch_checkpoint": leader_epochs,
    "partition_metadata": partition_metadata,
    "meta_properties": meta_properties,
    "clean_shutdown": clean_shutdown,
    "quorum_state": quorum_state,
}
AGAIN: dict[str, Callable[[bytes], bytes]] = {
    "offset_index": lambda data: encode_offset_index(decode_offset_index(data, 0)),
    "time_index": lambda data: encode_time_index(decode_time_index(data, 0)),
    "transaction_index": lambda data: encode_transaction_index(decode_transaction_index(data)),
    "producer_snapshot": lambda data: encode_producer_snapshot(decode_producer_snapshot(data)),
    "offset_checkpoint": lambda data: encode_offset_checkpoint(decode_offset_checkpoint(data)),
    "leader_epoch_checkpoint": lambda data: encode_leader_epoch_checkpoint(
        decode_leader_epoch_checkpoint(data)
    ),
    "partition_metadata": lambda data: encode_partition_metadata(decode_partition_metadata(data)),
    "meta_properties": lambda data: encode_properties(decode_properties(data)),
    "clean_shutdown": lambda data: encode_clean_shutdown_file(decode_clean_shutdown_file(data)),
    "quorum_state": lambda data: encode_quorum_state(decode_quorum_state(data)),
}
ORACLE_KINDS = {
    FileKind.OFFSET_INDEX: "offset_index",
    FileKind.TIME_INDEX: "time_index",
    FileKind.TRANSACTION_INDEX: "transaction_index",
    FileKind.PRODUCER_SNAPSHOT: "producer_snapshot",
    FileKind.RECOVERY_POINT_CHECKPOINT: "offset_checkpoint",
    FileKind.LOG_START_OFFSET_CHECKPOINT: "offset_checkpoint",
    FileKind.CLEANER_OFFSET_CHECKPOINT: "offset_checkpoint",
    FileKind.REPLICATION_OFFSET_CHECKPOINT: "offset_checkpoint",
    FileKind.LEADER_EPOCH_CHECKPOINT: "leader_epoch_checkpoint",
    FileKind.PARTITION_METADATA: "partition_metadata",
    FileKind.META_PROPERTIES: "meta_properties",
    FileKind.CLEAN_SHUTDOWN: "clean_shutdown",
    FileKind.QUORUM_STATE: "quorum_state",
}
REFUSED = "refused"


def ours(kind: str, data: bytes, base_offset: int = 1000) -> Any:
    try:
        return READERS[kind](data, base_offset)
    except FormatError:
        return REFUSED


def kafkas(oracle: Oracle, kind: str, path: Path) -> Any:
    try:
        answer = oracle.read_file(kind, path)
    except OracleError:
        return REFUSED
    if "entries" not in answer:
        return answer
    for entry in answer["entries"]:
        entry.pop("batches", None)
    return answer["entries"]


# ---------------------------------------------------------------------- what real brokers left


def side_files(pack: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(golden.shared(pack).rglob("*")):
        name = parse_file_name(path.name)
        if path.is_file() and name.kind in ORACLE_KINDS and name.state is not FileState.TEMPORARY:
            yield ORACLE_KINDS[name.kind], path


@pytest.mark.parametrize("pack", golden.names())
def test_every_name_a_broker_left_is_known_and_comes_back(pack):
    for log_dir in golden.log_dirs(golden.shared(pack)):
        for path in log_dir.rglob("*"):
            parse = parse_directory_name if path.is_dir() else parse_file_name
            name = parse(path.name)
            assert str(name) == path.name
            assert name.is_canonical, path


@pytest.mark.parametrize("pack", golden.names())
def test_every_side_file_a_broker_left_gives_its_bytes_again(pack):
    seen = set()
    for kind, path in side_files(pack):
        data = path.read_bytes()
        assert AGAIN[kind](data) == data, path
        seen.add(kind)
    assert seen >= {"offset_index", "time_index", "offset_checkpoint", "meta_properties"} | since(
        pack
    )


def since(pack):
    """Side files that came after the oldest releases we have: 0.11, 0.11 and 2.8 with KRaft."""
    if pack == "legacy-0.10.2.2":
        return set()
    if pack == "legacy-2.8.2":
        return {"producer_snapshot", "leader_epoch_checkpoint"}
    return {"producer_snapshot", "leader_epoch_checkpoint", "partition_metadata"}


@pytest.mark.parametrize("pack", golden.names())
def test_kafka_reads_of_every_side_file_what_we_read(oracle, pack):
    for kind, path in side_files(pack):
        if path.stat().st_size < 100_000:  # a preallocated index is a million of Kafka's entries
            base_offset = parse_file_name(path.name).offset or 0
            expected = kafkas(oracle, kind, path)
            assert expected != REFUSED, path
            assert ours(kind, path.read_bytes(), base_offset) == expected, path


@pytest.mark.parametrize("pack", golden.names())
def test_entries_of_a_brokers_index_end_at_its_end_or_at_its_padding(pack):
    for kind, path in side_files(pack):
        if kind in ("offset_index", "time_index"):
            decode = decode_offset_index if kind == "offset_index" else decode_time_index
            file = decode(path.read_bytes(), 0)
            assert file.trailing == b"", path
            assert file.stop.value in ("end of file", "zero padding"), path


# ----------------------------------------------------------------- the same bytes, both ways


def ascending(rng: random.Random, count: int, low: int, high: int) -> list[int]:
    return sorted({rng.choice((rng.randint(low, high), rng.randint(low, low + 99)))
                   for _ in range(count)})  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_offset_indexes_are_byte_identical(oracle, tmp_path, seed):
    rng = random.Random(SEED + seed)
    offsets, positions = (ascending(rng, 30, low, 2**31 - 1) for low in (0, 1))
    entries = [OffsetIndexEntry(*pair) for pair in zip(offsets, positions, strict=False)]
    content = {
        "base_offset": 1000,
        "entries": [{"offset": 1000 + o, "position": p} for o, p in entries],
    }
    path = tmp_path / f"{SEGMENT}.index"
    assert oracle.write_file("offset_index", path, content) == encode_offset_index(
        OffsetIndexFile.of(1000, entries)
    )
    path.unlink()
    preallocated = {**content, "preallocated": True, "max_index_size": 1001}
    written = oracle.write_file("offset_index", path, preallocated)
    file = decode_offset_index(written, 1000)
    assert file.entries.tolist() == entries
    assert file.padding_bytes == 1000 - 8 * len(entries)
    assert encode_offset_index(file) == written


@pytest.mark.parametrize("seed", range(5))
def test_time_indexes_are_byte_identical(oracle, tmp_path, seed):
    rng = random.Random(SEED + seed)
    timestamps = ascending(rng, 30, 0, 2**63 - 1)
    offsets = sorted(rng.randint(0, 2**31 - 1) for _ in timestamps)
    entries = [TimeIndexEntry(*pair) for pair in zip(timestamps, offsets, strict=True)]
    content = {
        "base_offset": 1000,
        "entries": [{"timestamp": t, "offset": 1000 + o} for t, o in entries],
    }
    path = tmp_path / f"{SEGMENT}.timeindex"
    assert oracle.write_file("time_index", path, content) == encode_time_index(
        TimeIndexFile.of(1000, entries)
    )
    path.unlink()
    preallocated = {**content, "preallocated": True, "max_index_size": 1001}
    written = oracle.write_file("time_index", path, preallocated)
    file = decode_time_index(written, 1000)
    assert file.entries.tolist() == entries
    assert file.padding_bytes == 996 - 12 * len(entries)
    assert encode_time_index(file) == written


@pytest.mark.parametrize("seed", range(5))
def test_transaction_indexes_are_byte_identical(oracle, tmp_path, seed):
    rng = random.Random(SEED + seed)

    def int64() -> int:
        return rng.randint(-(2**63), 2**63 - 1)

    last_offsets = ascending(rng, 10, -(2**63), 2**63 - 1)
    entries = [AbortedTransaction(0, int64(), int64(), last, int64()) for last in last_offsets]
    content = {"entries": [entry._asdict() for entry in entries]}
    written = oracle.write_file("transaction_index", tmp_path / f"{SEGMENT}.txnindex", content)
    assert encode_transaction_index(TransactionIndexFile.of(entries)) == written


@pytest.mark.parametrize("seed", range(5))
def test_producer_snapshots_are_byte_identical(oracle, tmp_path, seed):
    rng = random.Random(SEED + seed)
    entries = []
    for producer_id in {rng.choice((rng.randint(0, 20), rng.getrandbits(63))) for _ in range(10)}:
        markers_only = rng.random() < 0.3
        entries.append(
            ProducerSnapshotEntry(
                producer_id,
                rng.randint(0, 2**15 - 1),
                -1 if markers_only else rng.randint(0, 2**31 - 1),
                -1 if markers_only else rng.getrandbits(63),
                0 if markers_only else rng.randint(0, 100),
                rng.randint(-1, 2**63 - 1),
                rng.randint(-1, 2**31 - 1),
                rng.choice((-1, 0, rng.getrandbits(63))),
            )
        )
    content = {"entries": [entry._asdict() for entry in entries]}
    written = oracle.write_file("producer_snapshot", tmp_path / f"{SEGMENT}.snapshot", content)
    assert encode_producer_snapshot(ProducerSnapshotFile.of(entries)) == written


@pytest.mark.parametrize("seed", range(3))
def test_checkpoints_are_byte_identical(oracle, tmp_path, seed):
    rng = random.Random(SEED + seed)
    entries = tuple(
        OffsetCheckpointEntry(f"topic.{n}-delete", rng.getrandbits(31), rng.getrandbits(63))
        for n in range(seed * 10)
    )
    content = {"entries": [entry._asdict() for entry in entries]}
    written = oracle.write_file("offset_checkpoint", tmp_path / "checkpoint", content)
    assert encode_offset_checkpoint(OffsetCheckpoint(entries)) == written
    epochs = tuple(EpochEntry(entry.partition, entry.offset) for entry in entries)
    content = {"entries": [entry._asdict() for entry in epochs]}
    (tmp_path / "partition").mkdir()
    path = tmp_path / "partition" / "leader-epoch-checkpoint"
    written = oracle.write_file("leader_epoch_checkpoint", path, content)
    assert encode_leader_epoch_checkpoint(LeaderEpochCheckpoint(epochs)) == written


def test_small_files_are_byte_identical(oracle, tmp_path):
    topic_id = uuid.UUID("0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b")
    content: dict[str, Any] = {"topic_id": "CsoLUxvPT4eqqZoF0nCfGw"}
    path = tmp_path / "partition.metadata"
    assert oracle.write_file("partition_metadata", path, content) == encode_partition_metadata(
        PartitionMetadata(topic_id)
    )
    for epoch in (-1, 0, 2**63 - 1):
        path = tmp_path / ".kafka_cleanshutdown"
        written = oracle.write_file("clean_shutdown", path, {"broker_epoch": epoch})
        assert encode_clean_shutdown_file(CleanShutdownFile.of(epoch)) == written


@pytest.mark.parametrize(
    ("kraft_version", "state"),
    [
        (0, QuorumState(0, 1, 2, -1, current_voters=(1, 2, 3))),
        (0, QuorumState(0, -1, 2**31 - 1, 3, current_voters=())),
        (1, QuorumState(1, -1, 7, 3, uuid.UUID(int=2**127 + 5))),
        (1, QuorumState(1, 5, 7, -1)),
    ],
)
def test_quorum_states_are_byte_identical(oracle, tmp_path, kraft_version, state):
    data = {
        "clusterId": state.cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": java_text.uuid_text(state.voted_directory_id),
        "appliedOffset": state.applied_offset,
        "currentVoters": [{"voterId": voter} for voter in state.current_voters],
    }
    content = {"kraft_version": kraft_version, "data": data}
    written = oracle.write_file("quorum_state", tmp_path / "quorum-state", content)
    assert encode_quorum_state(state) == written


@pytest.mark.parametrize(
    "meta",
    [
        MetaProperties(1, "Z29sZGVuLWRpcmVjdG9yeQ", 1, uuid.UUID(int=2**127 + 5)),
        MetaProperties(1, "a b=c:d#e!\\\t\u20ac", 2**31 - 1),
        MetaProperties(0, None, 3),
        MetaProperties(0, "c", 3, uuid.UUID(int=5)),
        MetaProperties(0),
    ],
)
def test_meta_properties_are_byte_identical_but_for_the_date(oracle, tmp_path, meta):
    content = {
        "version": meta.version,
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": meta.directory_id and java_text.uuid_text(meta.directory_id),
    }
    written = oracle.write_file("meta_properties", tmp_path / "meta.properties", content)
    date = written.split(b"\n")[1].decode().removeprefix("#")
    # The order is the JVM's: a hash table's up to JDK 17, sorted from 18 on.
    orders = (False, True)
    assert written in [encode_meta_properties(meta, date=date, sort_keys=order) for order in orders]


# ------------------------------------------------- the same acceptance, of whole and of damaged

CHECKPOINTS = [
    b"",
    b"0\n",
    b"0",
    b"0\n0",
    b"0\n1\na 0 7",
    b"0\r\n1\r\na 0 7\r\n",
    b"0\r1\ra 0 7\r",
    b"+0\n001\na\t+0  007 \t\n",
    "0\n\u0661\na 0 \uff17\n".encode(),
    b"-0\n1\na -0 7\n",
    b"0\n2\na 0 1\na 0 2\n",
    b"0\n1\n 1 2\n",
    b"\n",
    b" 0\n",
    b"0 \n0\n",
    b"1\n0\n",
    b"\xef\xbb\xbf0\n0\n",
    b"0\n\n",
    b"0\n-1\n",
    b"0\n2\na 0 1\n",
    b"0\n0\na 0 1\n",
    b"0\n1\na 0 1\n\n",
    b"0\n1\n a 0 1\n",
    b"0\n1\na 2147483648 1\n",
    b"0\n1\na \xff 1\n",
    b"0\n1\na\xc2\xa0b 0 1\n",
    b"0\n1\na\x0b0\x0c1\n",
    b"0\n1\n\xed\xa0\x80 0 1\n",
    b"0\n1\n" + bytes(16),
]


def agree(oracle: Oracle, kind: str, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert ours(kind, data) == kafkas(oracle, kind, path), data


@pytest.mark.parametrize("data", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_checkpoints_are_accepted_and_refused_alike(oracle, tmp_path, data):
    agree(oracle, "offset_checkpoint", tmp_path / "checkpoint", data)


def test_integers_are_read_alike(oracle, tmp_path):
    (tmp_path / "partition").mkdir()
    for text in test_java_text.INTEGERS:
        data = f"0\n1\n{text} 0\n".encode()
        agree(oracle, "leader_epoch_checkpoint", tmp_path / "partition" / "file", data)


def test_properties_are_loaded_alike(oracle, tmp_path):
    for data, _ in test_properties_file.LOADED:
        agree(oracle, "meta_properties", tmp_path / "meta.properties", data)


def test_random_properties_are_loaded_alike(oracle, tmp_path):
    rng = random.Random(SEED)
    for _ in range(500):
        data = bytes(rng.choices(b"ab=:\\\\ #!u0061\n\n\r\t\f\xe9", k=rng.randint(0, 40)))
        agree(oracle, "meta_properties", tmp_path / "meta.properties", data)


DAMAGED = {
    "offset_checkpoint": test_checkpoint_file.CLEANER,
    "leader_epoch_checkpoint": b"0\n2\n0 0\n3 120\n",
    "partition_metadata": test_partition_metadata.GOLDEN,
    "meta_properties": test_properties_file.GOLDEN,
    "producer_snapshot": test_producer_snapshot.OPEN_TRANSACTIONS,
    "clean_shutdown": test_clean_shutdown_file.GOLDEN,
    "quorum_state": test_quorum_state.DYNAMIC,
}


def test_a_quorum_state_of_static_voters_is_accepted_and_refused_alike(oracle, tmp_path):
    whole = test_quorum_state.STATIC
    for data in [*damage.cuts(whole), *(flipped for _, flipped in damage.flips(whole))]:
        agree(oracle, "quorum_state", tmp_path / "quorum-state", data)


def test_null_voters_are_legal_in_the_schema_but_stop_a_broker(oracle, tmp_path):
    data = test_quorum_state.STATIC.replace(b'[{"voterId":1}]', b"null")
    path = tmp_path / "quorum-state"
    path.write_bytes(data)
    assert kafkas(oracle, "quorum_state", path) == REFUSED
    assert ours("quorum_state", data) != REFUSED


@pytest.mark.parametrize("kind", DAMAGED)
def test_every_cut_and_flip_is_accepted_and_refused_alike(oracle, tmp_path, kind):
    (tmp_path / "partition").mkdir()
    name = ".kafka_cleanshutdown" if kind == "clean_shutdown" else "file"
    whole = DAMAGED[kind]
    for data in [*damage.cuts(whole), *(flipped for _, flipped in damage.flips(whole))]:
        agree(oracle, kind, tmp_path / "partition" / name, data)


def test_of_a_transaction_indexs_version_kafka_sees_one_byte_of_two(oracle, tmp_path):
    whole = test_transaction_index.ABORTED
    path = tmp_path / "00000000000000000000.txnindex"
    for version in (0, 1, 255, 256, 0x7F00, -1, -256):
        data = struct.pack(">h", version) + whole[2:]
        path.write_bytes(data)
        answer = kafkas(oracle, "transaction_index", path)
        if version >> 8 > 0:
            assert answer == REFUSED
        else:
            assert [entry.pop("version") for entry in answer] == [version >> 8, 0]
        stop = decode_transaction_index(data).stop.value
        assert stop == ("unknown version" if version else "end of file")


def test_kafka_takes_every_whole_slot_of_an_index_for_an_entry(oracle, tmp_path):
    rng = random.Random(SEED)
    for size in (0, 7, 8, 64, 100):
        data = rng.randbytes(size)
        agree(oracle, "offset_index", tmp_path / f"{SEGMENT}.index", data)
        agree(oracle, "time_index", tmp_path / f"{SEGMENT}.timeindex", data)


def test_where_jackson_reads_a_number_in_other_clothes_we_do_not(oracle, tmp_path):
    path = tmp_path / ".kafka_cleanshutdown"
    for text in ('"12"', "12.9", '" 12 "'):
        path.write_text(f'{{"version":0,"brokerEpoch":{text}}}')
        assert kafkas(oracle, "clean_shutdown", path) == {"broker_epoch": 12}
        assert ours("clean_shutdown", path.read_bytes()) == {"broker_epoch": None}
    path = tmp_path / "quorum-state"
    for text in ('"x"', "1.9", "65537"):
        data = test_quorum_state.DYNAMIC.replace(b'version":1', f'version":{text}'.encode())
        path.write_bytes(data)
        read = kafkas(oracle, "quorum_state", path)
        assert read == REFUSED if text == '"x"' else read["leaderId"] == 1
        assert ours("quorum_state", data) == REFUSED
