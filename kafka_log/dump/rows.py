"""A log batch by batch: every case there is, for small files and for what kernels leave over."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from kafka_format.batch import RecordBatch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.errors import FormatError, MalformedRecordError
from kafka_format.legacy import LegacyBatch, encode_message
from kafka_format.message import Message
from kafka_format.record import Record, TimestampType
from kafka_log.dump.decoders import control_record_text, json_text
from kafka_log.dump.java_utf8 import decode_utf8
from kafka_log.dump.lines import JsonLines, TextLines, member
from kafka_log.dump.options import BytesDecoder, DumpOptions, RecordDecoder

if TYPE_CHECKING:
    from kafka_format.log_file import AnyBatch
    from kafka_log.directory import FoundFile
    from kafka_log.dump.output import Report

_INNER_CRC = struct.Struct(">I")
_INNER_CRC_POSITION = 12
_NUMBERS = {BytesDecoder.INTEGER: 4, BytesDecoder.LONG: 8}
COMPRESSION_NAMES = [
    *(codec.name.lower() for codec in Codec),
    *(f"unknown({number})" for number in range(len(Codec), 8)),
]
BOOLEANS = ("false", "true")


class RowWriter:
    """The lines of one batch after the other; it counts offsets, so they must come in order."""

    def __init__(
        self,
        file: FoundFile,
        options: DumpOptions,
        report: Report,
        *,
        decoder: RecordDecoder | None,
    ) -> None:
        self.lines: TextLines | JsonLines
        if options.format == "json":
            self.lines = JsonLines(file, contents=options.contents)
        else:
            self.lines = TextLines(
                contents=options.contents, skip_record_metadata=options.skip_record_metadata
            )
        self.last_offset = -1
        self.gaps: list[tuple[int, int]] = []
        self._options = options
        self._filters = options.filters
        self._report = report
        self._decoder = decoder
        self._decode = decoder.function if decoder else None

    def batch(self, batch: AnyBatch) -> str:
        """The batch's line and, on request, those of its records."""
        if self._filters and not self._may_pass(batch):
            return ""
        values = self._values(batch)
        is_legacy = isinstance(batch, LegacyBatch)
        line = (self.lines.legacy_batch if is_legacy else self.lines.batch).fill(values)
        if values["is_valid"] == "false":
            self.report_invalid(batch)
        if not self._options.deep:
            return line
        try:
            records = batch.records()
            crcs = self._inner_crcs(batch) if isinstance(batch, LegacyBatch) else []
        except FormatError as error:
            self._report.found(error)
            return line
        shown = self._record_lines(batch, records, values, crcs)
        if self._filters and not shown and (records or self._filters.keys):
            return ""
        return line + "".join(shown)

    def _values(self, batch: AnyBatch) -> dict[str, Any]:
        header = batch.header
        computed_crc = batch.computed_crc
        values: dict[str, Any] = {
            "position": batch.position,
            "size_in_bytes": header.size_in_bytes,
            "last_offset": header.last_offset,
            "magic": header.magic,
            "compression": COMPRESSION_NAMES[header.codec_id],
            "timestamp_type": str(header.timestamp_type),
            "max_timestamp": header.max_timestamp,
            "attributes": header.attributes,
            "crc": header.crc,
            "computed_crc": computed_crc,
            "is_valid": BOOLEANS[header.crc == computed_crc],
        }
        if isinstance(batch, RecordBatch):
            v2 = batch.header
            values |= v2._asdict()
            values["last_sequence"] = v2.last_sequence
            values["is_transactional"] = BOOLEANS[v2.is_transactional]
            values["is_control"] = BOOLEANS[v2.is_control]
            values["delete_horizon_ms"] = self.lines.delete_horizon(v2.delete_horizon_ms)
        return values

    def _may_pass(self, batch: AnyBatch) -> bool:
        """Whether the header allows a record that passes; without records to look at, one it is."""
        filters, header = self._filters, batch.header
        first = last = header.last_offset
        earliest: int | None = header.max_timestamp
        producer_id = None
        if isinstance(batch, RecordBatch):
            first, producer_id = batch.header.base_offset, batch.header.producer_id
            if header.timestamp_type is TimestampType.CREATE_TIME:
                earliest = None if batch.header.has_delete_horizon else batch.header.base_timestamp
        elif header.codec_id:
            first = filters.start_offset or 0  # a wrapper tells its last offset alone
            earliest = None
        return (
            filters.pass_range(min(first, last), last)
            and (filters.start_time is None or header.max_timestamp >= filters.start_time)
            and (
                filters.end_time is None
                or self._options.deep  # the first record need not be the earliest
                or earliest is None
                or earliest < filters.end_time
            )
            and filters.pass_producer(producer_id)
        )

    def _passes(self, record: Record) -> bool:
        filters = self._filters
        return (
            filters.pass_offset(record.offset)
            and filters.pass_time(record.timestamp)
            and (not filters.keys or record.key in filters.keys)
        )

    def report_invalid(self, batch: AnyBatch) -> None:
        try:
            batch.ensure_valid()
        except FormatError as error:
            self._report.found(error)

    def _inner_crcs(self, batch: LegacyBatch) -> list[tuple[int, bool]]:
        """Stored checksum of each message, and whether it is the right one."""
        if batch.header.codec_id == 0:
            return [(batch.header.crc, batch.is_valid)]
        crcs = []
        for message in batch.inner_messages():
            (computed,) = _INNER_CRC.unpack_from(encode_message(message), _INNER_CRC_POSITION)
            crcs.append((message.header.crc, message.header.crc == computed))
        return crcs

    def _record_lines(
        self,
        batch: AnyBatch,
        records: list[Record],
        of_batch: dict[str, Any],
        crcs: list[tuple[int, bool]],
    ) -> list[str]:
        lines = self.lines
        is_legacy = isinstance(batch, LegacyBatch)
        is_control = isinstance(batch, RecordBatch) and batch.header.is_control
        values = {
            "timestamp_type": of_batch["timestamp_type"],
            "of_batch": (lines.of_legacy_batch if is_legacy else lines.of_batch).fill(of_batch),
        }
        if is_legacy:
            template = lines.legacy_record
        elif is_control:
            template = lines.control_record
        elif isinstance(lines, JsonLines) and self._has_decoded:
            template = lines.decoded_record
        else:
            template = lines.record
        shown = []
        for index, record in enumerate(records):
            if record.offset != self.last_offset + 1:
                self.gaps.append((self.last_offset, record.offset))
            self.last_offset = record.offset
            if self._filters and not self._passes(record):
                continue
            if is_legacy:
                values["crc"], values["is_valid"] = crcs[index][0], BOOLEANS[crcs[index][1]]
            self._add_fields(values, record, batch, is_control=is_control)
            shown.append(template.fill(values))
        return shown

    def _add_fields(
        self, values: dict[str, Any], record: Record, batch: AnyBatch, *, is_control: bool
    ) -> None:
        key, value = record.key, record.value
        values["offset"] = record.offset
        values["timestamp"] = record.timestamp
        values["sequence"] = record.sequence
        values["key_size"] = -1 if key is None else len(key)
        values["value_size"] = -1 if value is None else len(value)
        values["headers"] = (
            self.lines.headers(record.headers) if record.headers else self._no_headers
        )
        if is_control:
            values["control"] = self._control(record, batch)
        if not self._options.contents:
            values["decoded"] = ""
        elif isinstance(self.lines, JsonLines):
            values["key"], values["value"] = member("key", key), member("value", value)
            values["decoded"] = "" if is_control else self._decoded(record, batch)
        elif not is_control:
            values["contents"] = self.lines.contents(*self._texts(record, batch))

    @property
    def _no_headers(self) -> str:
        return '"headers":[]' if self.lines.is_json else ""

    @property
    def _has_decoded(self) -> bool:
        """Whether the bytes mean more than text."""
        return self._options.contents and (
            self._decode is not None
            or self._options.key_decoder in _NUMBERS
            or self._options.value_decoder in _NUMBERS
        )

    def _texts(self, record: Record, batch: AnyBatch) -> tuple[str | None, str | None]:
        """What stands behind `key: ` and `payload: `."""
        if self._decode is None:
            options = self._options
            return (
                self._text(options.key_decoder, record.key, "key", batch),
                self._text(options.value_decoder, record.value, "value", batch),
            )
        try:
            return self._decode(record.key, record.value, offset=record.offset)
        except FormatError as error:
            self._report.found(error.moved(batch.path, batch.position))
            return None, None

    def _text(
        self, decoder: BytesDecoder, data: bytes | None, what: str, batch: AnyBatch
    ) -> str | None:
        if data is None:
            return None
        if decoder is BytesDecoder.STRING:
            return decode_utf8(data)
        if decoder is BytesDecoder.DEFAULT:
            return base64.b64encode(data).decode()
        number = self._number(decoder, data, what, batch)
        return None if number is None else str(number)

    def _number(self, decoder: BytesDecoder, data: bytes, what: str, batch: AnyBatch) -> int | None:
        """The first bytes as an integer; the original ends with an exception if there are fewer."""
        size = _NUMBERS[decoder]
        if len(data) < size:
            found, expected = f"a {what} of {len(data)} bytes", f"at least {size}"
            self._report.found(MalformedRecordError(batch.location, found, expected))
            return None
        return int.from_bytes(data[:size], "big", signed=True)

    def _decoded(self, record: Record, batch: AnyBatch) -> str:
        """Members that tell what the bytes mean, beside the bytes."""
        if not self._has_decoded:
            return ""
        if self._decode is None:
            options, parts = self._options, ""
            for what, decoder, data in (
                ("key", options.key_decoder, record.key),
                ("value", options.value_decoder, record.value),
            ):
                if decoder in _NUMBERS:
                    number = None if data is None else self._number(decoder, data, what, batch)
                    parts += f',"decoded_{what}":{json_text(number)}'
            return parts
        key, value = self._texts(record, batch)
        if self._decoder is RecordDecoder.REMOTE_LOG_METADATA:
            value = _remote_node(record.value) or value
        if record.value is None:
            value = None  # a tombstone, not the text that says so
        return f',"decoded_key":{_as_json(key)},"decoded_value":{_as_json(value)}'

    def _control(self, record: Record, batch: AnyBatch) -> str:
        try:
            if isinstance(self.lines, TextLines):
                return f" {control_record_text(record.key, record.value)}"
            return _control_members(record)
        except FormatError as error:
            self._report.found(error.moved(batch.path, batch.position))
            return ""


def _control_members(record: Record) -> str:
    decoded = decode_control_record(record.key, record.value)
    known = isinstance(decoded.type, ControlRecordType)
    name = decoded.type.name if isinstance(decoded.type, ControlRecordType) else int(decoded.type)
    value = json_text(decoded.value.to_json()) if isinstance(decoded.value, Message) else "null"
    shown = f',"control_type":{json_text(name)},"control_type_version":{decoded.key.version}'
    return f'{shown},"control":{value}' if known else shown


def _as_json(text: str | None) -> str:
    """JSON stays JSON; the decoders' other texts (complaints, all of them) become strings."""
    if text is None:
        return "null"
    return text if text.startswith("{") else json_text(text)


def _remote_node(value: bytes | None) -> str | None:
    """The decoder's text is Java's, so here the record itself."""
    from kafka_format.remote_log_metadata import decode_remote_log_metadata

    try:
        record = decode_remote_log_metadata(value)
    except FormatError:
        return None
    if not isinstance(record.value, Message):
        return None
    node = {"type": record.name, "version": record.version, "data": record.value.to_json()}
    return json_text(node)
