"""What is done with an input. A FormatError is an answer; any other exception is a finding.

Names are those of `--target` and of the files in corpus/.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble
from kafka_format.checkpoint_file import decode_offset_checkpoint, encode_offset_checkpoint
from kafka_format.clean_shutdown_file import decode_clean_shutdown_file, encode_clean_shutdown_file
from kafka_format.compression import Codec, compress, decompress
from kafka_format.errors import FormatError
from kafka_format.leader_epoch_file import (
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
)
from kafka_format.legacy import LegacyHeader, LegacyMessage, encode_message
from kafka_format.log_file import LogFile
from kafka_format.offset_index import decode_offset_index, encode_offset_index, iter_offset_index
from kafka_format.partition_metadata import decode_partition_metadata, encode_partition_metadata
from kafka_format.producer_snapshot import (
    decode_producer_snapshot,
    encode_producer_snapshot,
    iter_producer_snapshot,
)
from kafka_format.properties_file import (
    decode_properties,
    encode_meta_properties,
    encode_properties,
    meta_properties,
)
from kafka_format.quorum_state import decode_quorum_state, encode_quorum_state
from kafka_format.time_index import decode_time_index, encode_time_index, iter_time_index
from kafka_format.transaction_index import (
    decode_transaction_index,
    encode_transaction_index,
    iter_transaction_index,
)
from kafka_log.dump import decoders
from kafka_log.names import (
    is_valid_topic,
    parse_directory_name,
    parse_file_name,
    parse_partition_directory_name,
)
from tests.kafka_format.columnar.agreement import assert_agreement
from tests.mutilation import readers
from tests.mutilation.readers import LIMIT, value_or_error

COMPILED = False
"""Whether kernels run compiled: fuzzing sees into them only if they do not."""


def segment(data: bytes) -> None:
    """Bytes of a `.log`: the row decoder and the columnar one agree, with checksums and without."""
    assert_agreement(data, compiled=COMPILED)
    assert_agreement(data, compiled=COMPILED, verify=False)
    for batch in LogFile(data).batches():
        value_or_error(len(data), batch.encode, limit=LIMIT)


def records(data: bytes) -> None:
    """Header fields (attributes on) and plain records, sealed into a batch of magic 2."""
    fields = HEADER_SIZE - 21
    packed = bytes(21) + data[:fields].ljust(fields, b"\0")
    header = BatchHeader.unpack(packed)._replace(magic=2)
    plain = data[fields:]
    codec = header.attributes & 7
    payload = compress(Codec(codec), plain) if codec <= Codec.ZSTD else plain
    batch = assemble(header, payload)
    assert_agreement(batch, compiled=COMPILED)


def wrapper(data: bytes) -> None:
    """Attributes and magic (a byte), offset, timestamp, then the messages inside a wrapper."""
    head, plain = data[:17].ljust(17, b"\0"), data[17:]
    magic, attributes = head[0] >> 4 & 1, head[0] & 0xF
    codec = attributes & 7
    value = compress(Codec(codec), plain, magic=magic) if codec <= Codec.ZSTD else plain
    offset = int.from_bytes(head[1:9], "big", signed=True)
    timestamp = int.from_bytes(head[9:17], "big", signed=True) if magic else -1
    message = LegacyMessage(LegacyHeader(offset, 0, 0, magic, attributes, timestamp), None, value)
    assert_agreement(encode_message(message), compiled=COMPILED)


def compression(data: bytes) -> None:
    """Codec and magic (a byte), then compressed bytes; they are also compressed and read again."""
    if not data:
        return
    codec, magic, rest = Codec(data[0] % len(Codec)), data[0] >> 4 & 1, data[1:]
    magic = 0 if magic else 2
    value_or_error(len(rest), decompress, codec, rest, magic=magic, limit=LIMIT)
    again = decompress(codec, compress(codec, rest, magic=magic), magic=magic, limit=len(rest))
    assert again == rest


def offset_index(data: bytes) -> None:
    file = decode_offset_index(data, 7)
    assert encode_offset_index(file) == data
    assert len(list(iter_offset_index(file))) == len(file.entries) == len(file.offsets)


def time_index(data: bytes) -> None:
    file = decode_time_index(data, 7)
    assert encode_time_index(file) == data
    assert len(list(iter_time_index(file))) == len(file.entries)


def transaction_index(data: bytes) -> None:
    file = decode_transaction_index(data)
    assert encode_transaction_index(file) == data
    assert len(list(iter_transaction_index(file))) == len(file.entries)


def producer_snapshot(data: bytes) -> None:
    file = value_or_error(len(data), decode_producer_snapshot, data, verify_crc=False)
    if not isinstance(file, FormatError):
        assert encode_producer_snapshot(file) == data
        assert len(list(iter_producer_snapshot(file))) == len(file.entries)
    value_or_error(len(data), decode_producer_snapshot, data)


def offset_checkpoint(data: bytes) -> None:
    file = value_or_error(len(data), decode_offset_checkpoint, data)
    _again(file, encode_offset_checkpoint, decode_offset_checkpoint)


def leader_epoch_checkpoint(data: bytes) -> None:
    file = value_or_error(len(data), decode_leader_epoch_checkpoint, data)
    _again(file, encode_leader_epoch_checkpoint, decode_leader_epoch_checkpoint)


def partition_metadata(data: bytes) -> None:
    file = value_or_error(len(data), decode_partition_metadata, data)
    _again(file, encode_partition_metadata, decode_partition_metadata)


def properties(data: bytes) -> None:
    file = value_or_error(len(data), decode_properties, data)
    if isinstance(file, FormatError):
        return
    assert encode_properties(file) == data
    meta = value_or_error(len(data), meta_properties, file)
    if not data.isascii() or b"\\" in data:
        return  # Kafka writes UTF-8 and reads ISO-8859-1: what is neither does not come back
    _again(meta, lambda value: encode_meta_properties(value, date="now"), _decode_meta)


def _decode_meta(data: bytes) -> Any:
    return meta_properties(decode_properties(data))


def clean_shutdown(data: bytes) -> None:
    assert encode_clean_shutdown_file(decode_clean_shutdown_file(data)) == data


def quorum_state(data: bytes) -> None:
    file = value_or_error(len(data), decode_quorum_state, data)
    if isinstance(file, FormatError):
        return
    try:
        written = encode_quorum_state(file)
    except ValueError:
        return  # fields of both versions: there is no way to write them
    assert encode_quorum_state(decode_quorum_state(written)) == written


def _again(value: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
    """What was read, written and read again is the same."""
    if not isinstance(value, FormatError):
        assert decode(encode(value)) == value


def messages(data: bytes) -> None:
    """Length of the key (two bytes, 65535 for null), key, value (null if nothing is left)."""
    size = int.from_bytes(data[:2], "big")
    key = None if size == 0xFFFF else data[2 : 2 + size]
    value = data[2 + len(key or b"") :] or None
    readers.read_messages(key, value)
    for decode in (
        decoders.offsets_decoder,
        decoders.transaction_log_decoder,
        decoders.share_group_state_decoder,
        decoders.cluster_metadata_decoder,
        decoders.remote_log_metadata_decoder,
    ):
        value_or_error(len(data), decode, key, value, offset=5)
    value_or_error(len(data), decoders.control_record_text, key, value)


def names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert str(parse_file_name(text)) == text
    parse_directory_name(text)
    is_valid_topic(text)
    value_or_error(len(text), parse_partition_directory_name, text)


def dump(data: bytes) -> None:
    """A log dumped by rows and by columns, as text and as JSON: the same bytes and reports."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as scratch:
        path = Path(scratch, "fuzz-0", "00000000000000000000.log")
        path.parent.mkdir()
        path.write_bytes(data)
        for output_format in ("text", "json"):
            rows = readers.dump_paths(readers.dump_options(output_format, "rows"), path)
            if COMPILED:
                columns = readers.dump_options(output_format, "columns")
                assert readers.dump_paths(columns, path) == rows
            if output_format == "json":
                for line in rows[1].splitlines():
                    json.loads(line)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        segment,
        records,
        wrapper,
        compression,
        offset_index,
        time_index,
        transaction_index,
        producer_snapshot,
        offset_checkpoint,
        leader_epoch_checkpoint,
        partition_metadata,
        properties,
        clean_shutdown,
        quorum_state,
        messages,
        names,
        dump,
    )
}
