"""The lines of a log's dump: text as kafka-dump-log prints it, and JSON with the same content.

Placeholders have the names of the columns of batches and records. `<contents>`, `<control>`,
`<key>`, `<value>` and `<headers>` stand for a whole part of the line, which may be empty.
"""

import base64
import codecs
import json
from collections.abc import Iterable, Iterator
from itertools import islice

from kafka_format.java_text import decode_utf8
from kafka_format.record import Header
from kafka_format.shown_text import escaped
from kafka_log.dump.output import file_fields, json_line
from kafka_log.dump.template import Template
from kafka_log.inventory.directory import FoundFile

RECORD_INDENT = "|"

SLICE = 3 * 64 * 1024
"""Bytes of a key or value that are converted to text at a time; whole groups of base64."""

_TEXT_BATCH_END = (
    " position: <position> <timestamp_type>: <max_timestamp> size: <size_in_bytes> magic: <magic>"
    " compresscodec: <compression> crc: <crc> isvalid: <is_valid>\n"
)
_TEXT_BATCH = (
    "baseOffset: <base_offset> lastOffset: <last_offset> count: <record_count>"
    " baseSequence: <base_sequence> lastSequence: <last_sequence> producerId: <producer_id>"
    " producerEpoch: <producer_epoch> partitionLeaderEpoch: <partition_leader_epoch>"
    " isTransactional: <is_transactional> isControl: <is_control>"
    " deleteHorizonMs: <delete_horizon_ms>"
)
_TEXT_RECORD = (
    "| offset: <offset> <timestamp_type>: <timestamp> keySize: <key_size> valueSize: <value_size>"
)
_JSON_BATCH = (
    '"position":<position>,"size_in_bytes":<size_in_bytes>,"base_offset":<base_offset>,'
    '"last_offset":<last_offset>,"record_count":<record_count>,"magic":<magic>,'
    '"compression":"<compression>","timestamp_type":"<timestamp_type>",'
    '"base_timestamp":<base_timestamp>,"max_timestamp":<max_timestamp>,'
    '"producer_id":<producer_id>,"producer_epoch":<producer_epoch>,'
    '"base_sequence":<base_sequence>,"last_sequence":<last_sequence>,'
    '"partition_leader_epoch":<partition_leader_epoch>,"is_transactional":<is_transactional>,'
    '"is_control":<is_control>,"delete_horizon_ms":<delete_horizon_ms>,'
    '"attributes":<attributes>,"crc":<crc>,"computed_crc":<computed_crc>,'
    '"is_valid":<is_valid>}\n'
)
# Fields that a legacy message lacks are null; a wrapper's offset is its last record's.
_JSON_LEGACY_BATCH = (
    '"position":<position>,"size_in_bytes":<size_in_bytes>,"base_offset":null,'
    '"last_offset":<last_offset>,"record_count":null,"magic":<magic>,'
    '"compression":"<compression>","timestamp_type":"<timestamp_type>",'
    '"base_timestamp":null,"max_timestamp":<max_timestamp>,'
    '"producer_id":null,"producer_epoch":null,"base_sequence":null,"last_sequence":null,'
    '"partition_leader_epoch":null,"is_transactional":false,"is_control":false,'
    '"delete_horizon_ms":null,"attributes":<attributes>,"crc":<crc>,'
    '"computed_crc":<computed_crc>,"is_valid":<is_valid>}\n'
)
_JSON_OF_BATCH = (
    '"position":<position>,"base_offset":<base_offset>,"magic":<magic>,'
    '"compression":"<compression>","timestamp_type":"<timestamp_type>",'
    '"partition_leader_epoch":<partition_leader_epoch>,"producer_id":<producer_id>,'
    '"producer_epoch":<producer_epoch>,"is_transactional":<is_transactional>,'
    '"is_control":<is_control>,'
)
_JSON_OF_LEGACY_BATCH = (
    '"position":<position>,"base_offset":null,"magic":<magic>,"compression":"<compression>",'
    '"timestamp_type":"<timestamp_type>","partition_leader_epoch":null,"producer_id":null,'
    '"producer_epoch":null,"is_transactional":false,"is_control":false,'
)
_JSON_RECORD = (
    '"offset":<offset>,"timestamp_ms":<timestamp><stored_timestamp>,"sequence":<sequence>,'
    '"attributes":<attributes>,"key_size":<key_size>,"value_size":<value_size>,'
)
STORED_TIMESTAMP = ',"stored_timestamp_ms":%d'
"""Only under LogAppendTime: otherwise it equals the timestamp."""


class TextLines:
    """Lines as kafka-dump-log prints them."""

    is_json = False

    def __init__(
        self, *, contents: bool, skip_record_metadata: bool, is_terminal: bool = False
    ) -> None:
        self._shown = escaped if is_terminal else str
        skip = skip_record_metadata
        shown = "<contents>" if contents else ""
        self.batch = Template(_TEXT_BATCH + _TEXT_BATCH_END)
        self.legacy_batch = Template("offset: <last_offset>" + _TEXT_BATCH_END)
        meta = "" if skip else _TEXT_RECORD + " sequence: <sequence> headerKeys: [<headers>]"
        legacy = "" if skip else _TEXT_RECORD + " isValid: <is_valid> crc: <crc>"
        self.record = Template(f"{meta}{shown}\n")
        self.control_record = Template("\n" if skip else f"{meta}<control>\n")
        self.legacy_record = Template(f"{legacy}{shown}\n")
        # The lines of records repeat nothing of their batch.
        self.of_batch = self.of_legacy_batch = Template("")
        self.first_prefix = f"{RECORD_INDENT} " if skip else " "

    def delete_horizon(self, value: int | None) -> str:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"

    def headers(self, headers: Iterable[Header]) -> str:
        return _joined_by_commas(self._shown(decode_utf8(_raw(header.key))) for header in headers)

    def control(self, text: str) -> str:
        """Return the end of a control record's line."""
        return f" {self._shown(text)}"

    def contents(self, key: str | None, value: str | None) -> str:
        """Return the end of a record's line."""
        shown = self._shown
        if key is None:
            return "" if value is None else f"{self.first_prefix}payload: {shown(value)}"
        if value is None:
            return f"{self.first_prefix}key: {shown(key)}"
        return f"{self.first_prefix}key: {shown(key)} payload: {shown(value)}"

    def content_parts(
        self, key: Iterable[str] | None, value: Iterable[str] | None
    ) -> Iterator[str]:
        """Yield `contents` in parts, from texts in slices."""
        prefix = self.first_prefix
        if key is not None:
            yield f"{prefix}key: "
            yield from map(self._shown, key)
            prefix = " "
        if value is not None:
            yield f"{prefix}payload: "
            yield from map(self._shown, value)


class JsonLines:
    """One JSON object per line, with all fields; bytes that are not UTF-8 as base64."""

    is_json = True

    def __init__(self, file: FoundFile, *, contents: bool) -> None:
        self.has_contents = contents
        batch, record = (
            f"{json_line({'kind': kind, **file_fields(file)})[:-2]},"
            for kind in ("batch", "record")
        )
        self.batch = Template(_JSON_BATCH, prefix=batch)
        self.legacy_batch = Template(_JSON_LEGACY_BATCH, prefix=batch)
        self.of_batch = Template(_JSON_OF_BATCH)
        self.of_legacy_batch = Template(_JSON_OF_LEGACY_BATCH)
        shown = "<key>,<value>,<headers>" if contents else "<headers>"
        line = f"<of_batch>{_JSON_RECORD}{shown}"
        self.record = Template(f"{line}}}\n", prefix=record)
        self.decoded_record = Template(f"{line}<decoded>}}\n", prefix=record)
        self.control_record = Template(f"{line}<control>}}\n", prefix=record)
        self.legacy_record = Template(
            f'{line}<decoded>,"crc":<crc>,"is_valid":<is_valid>}}\n', prefix=record
        )

    def delete_horizon(self, value: int | None) -> str:
        return "null" if value is None else str(value)

    def headers(self, headers: Iterable[Header]) -> str:
        return f'"headers":[{_joined_by_commas(map(self._header, headers))}]'

    def header_parts(self, headers: Iterable[Header]) -> Iterator[str]:
        """Yield `headers` in parts, with large values in slices."""
        yield '"headers":['
        for number, header in enumerate(headers):
            yield "," if number else ""
            if not self.has_contents or header.value is None or len(header.value) <= SLICE:
                yield self._header(header)
            else:
                yield f"{{{member('key', _raw(header.key))},"
                yield from member_parts("value", header.value)
                yield "}"
        yield "]"

    def _header(self, header: Header) -> str:
        key = member("key", _raw(header.key))
        if self.has_contents:
            return f"{{{key},{member('value', header.value)}}}"
        size = -1 if header.value is None else len(header.value)
        return f'{{{key},"value_size":{size}}}'


def member(name: str, data: bytes | None) -> str:
    """Return `"name":null`, `"name":"text"`, or `"name_base64":"…"` if the bytes are not UTF-8."""
    if data is None:
        return f'"{name}":null'
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(data).decode()}"'
    return f'"{name}":{json.dumps(text, ensure_ascii=False)}'


def member_parts(name: str, data: bytes | None) -> Iterator[str]:
    """Yield `member` in slices: a character may become six, each of four bytes in memory."""
    if data is None or len(data) <= SLICE:
        yield member(name, data)
        return
    view = memoryview(data)
    slices = [view[start : start + SLICE] for start in range(0, len(data), SLICE)]
    if not _is_text(slices):
        yield f'"{name}_base64":"'
        for data_slice in slices:
            yield base64.b64encode(data_slice).decode()
    else:
        yield f'"{name}":"'
        for text in _texts(slices):
            yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield '"'


def text_parts(data: bytes) -> Iterator[str]:
    """Yield `decode_utf8` in slices."""
    start = 0
    while start < len(data):
        end = _character_end(data, start + SLICE)
        yield decode_utf8(data[start:end])
        start = end


def _character_end(data: bytes, end: int) -> int:
    """Return the last position up to `end` at which the bytes can be split without a difference.

    No character, valid or not, extends over a byte that begins one, or has more than four bytes.
    """
    if end >= len(data):
        return len(data)
    for position in range(end, end - 4, -1):
        if data[position] & 0xC0 != 0x80:
            return position
    return end


def base64_parts(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), SLICE):
        yield base64.b64encode(data[start : start + SLICE]).decode()


def _is_text(slices: Iterable[memoryview]) -> bool:
    try:
        for _ in _texts(slices):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _texts(slices: Iterable[memoryview]) -> Iterator[str]:
    """Decode UTF-8 in slices, which may end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for data_slice in slices:
        yield decoder.decode(data_slice)
    yield decoder.decode(b"", final=True)


def _joined_by_commas(texts: Iterator[str]) -> str:
    """Join in chunks: a record may have millions of headers, too many to hold as separate texts."""
    parts = []
    while chunk := list(islice(texts, 1000)):
        parts.append(",".join(chunk))
    return ",".join(parts)


def _raw(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
