"""The first inputs of every target, from golden directories and message vectors.

`python -m tests.fuzz.seeds` adds them to corpus/, which also has what fuzzing found since.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from kafka_format.legacy import LegacyBatch, encode_message
from kafka_format.log_file import LogFile
from kafka_log.names import FileKind
from tests.fuzz.corpus import FOLDER, read_corpus, write_corpus
from tests.fuzz.targets import TARGETS
from tests.mutilation import directories, readers

VECTORS = Path(__file__).parents[1] / "kafka_format" / "message_vectors.json"
SIDE_FILES = {
    FileKind.OFFSET_INDEX: "offset_index",
    FileKind.TIME_INDEX: "time_index",
    FileKind.TRANSACTION_INDEX: "transaction_index",
    FileKind.PRODUCER_SNAPSHOT: "producer_snapshot",
    **dict.fromkeys(readers.CHECKPOINTS, "offset_checkpoint"),
    FileKind.LEADER_EPOCH_CHECKPOINT: "leader_epoch_checkpoint",
    FileKind.PARTITION_METADATA: "partition_metadata",
    FileKind.META_PROPERTIES: "properties",
    FileKind.CLEAN_SHUTDOWN: "clean_shutdown",
    FileKind.QUORUM_STATE: "quorum_state",
}
PROPERTIES = b"! two\\\n  lines\n\\u0041\\ b : c\\td\\\r\n  e\nversion = 1\n\nempty\n"
EPOCHS = b"0\n2\n0 0\n+3 0120\r\n"


def seeds() -> Iterator[tuple[str, bytes]]:
    for _, path, data in directories.files():
        for part in Path(path).parts:
            yield "names", part.encode()
        kind = readers.kind_of(path)
        if kind in readers.LOGS:
            yield from _log_seeds(data)
        else:
            yield SIDE_FILES[kind], data
    yield "properties", PROPERTIES
    yield "leader_epoch_checkpoint", EPOCHS
    yield "names", b"00000000000000000005.log.cleaned"
    yield "names", b"a.b-c-12.0123456789abcdef-future"
    yield "names", b"12_AAAAAAAAAAAAAAAAAAAAAA.timeindex"
    yield from _message_seeds()


def _log_seeds(data: bytes) -> Iterator[tuple[str, bytes]]:
    batches = list(LogFile(data).batches())
    for batch in batches:
        raw = bytes(batch.raw)
        yield "segment", raw
        codec = batch.header.attributes & 7
        if isinstance(batch, LegacyBatch):
            if codec:
                head = bytes([batch.magic << 4 | batch.header.attributes])
                offset = batch.header.offset.to_bytes(8, "big", signed=True)
                timestamp = batch.header.timestamp.to_bytes(8, "big", signed=True)
                inner = b"".join(map(encode_message, batch.inner_messages()))
                yield "wrapper", head + offset + timestamp + inner
                value = batch.message().value
                yield "compression", bytes([codec | (0 if batch.magic else 0x10)]) + value
            continue
        yield "records", raw[21:61] + batch.decompressed_payload()
        if codec:
            yield "compression", bytes([codec]) + bytes(batch.payload)
    small = [bytes(batch.raw) for batch in batches if len(batch.raw) < 120][:3]
    yield "dump", b"".join(small)
    yield "segment", b"".join(small) + bytes(20)


def _message_seeds() -> Iterator[tuple[str, bytes]]:
    """The newest version of each type: a key, and a value after the key of its type."""
    keys: dict[tuple[str, int], bytes] = {}
    newest = {}
    for vector in json.loads(VECTORS.read_text("utf-8")):
        stored = bytes.fromhex(vector["stored"])
        if vector["part"] == "key":
            keys[vector["set"], vector["type"]] = stored
            yield "messages", len(stored).to_bytes(2, "big") + stored
        else:
            newest[vector["set"], vector["name"]] = vector
    for vector in newest.values():
        key = keys.get((vector["set"], vector["type"]))
        head = b"\xff\xff" if key is None else len(key).to_bytes(2, "big") + key
        yield "messages", head + bytes.fromhex(vector["stored"])
        if vector["set"] == "control":
            head = b"\0\4\0\0" + vector["type"].to_bytes(2, "big", signed=True)
            yield "messages", head + bytes.fromhex(vector["stored"])


def main() -> None:
    found: dict[str, set[bytes]] = {target: set() for target in TARGETS}
    for target, data in seeds():
        found[target].add(data)
    for target, inputs in found.items():
        kept = read_corpus(target) if (FOLDER / f"{target}.hex").exists() else []
        write_corpus(target, [*inputs, *kept])


if __name__ == "__main__":
    main()
