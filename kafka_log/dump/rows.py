"""Dump a log batch by batch: small files, and the batches that kernels cannot render."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from kafka_format.access import access
from kafka_format.attributes import CODEC_MASK
from kafka_format.batch import BatchHeader, RecordBatch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.errors import (
    CrcMismatchError,
    FormatError,
    MalformedRecordError,
    OverLimitError,
)
from kafka_format.java_text import decode_utf8
from kafka_format.legacy import LegacyBatch, LegacyHeader, LegacyMessage
from kafka_format.message import Message
from kafka_format.record import Record, TimestampType
from kafka_log.dump.decoders import control_record_text, json_text
from kafka_log.dump.gaps import Gaps
from kafka_log.dump.lines import (
    SLICE,
    STORED_TIMESTAMP,
    JsonLines,
    TextLines,
    base64_parts,
    member,
    member_parts,
    text_parts,
)
from kafka_log.dump.options import BytesDecoder, DumpOptions, RecordDecoder

if TYPE_CHECKING:
    from kafka_format.log_file import AnyBatch
    from kafka_log.dump.report import Report
    from kafka_log.inventory.directory import FoundFile

_PART = 256 * 1024
_NUMBERS = {BytesDecoder.INTEGER: 4, BytesDecoder.LONG: 8}
COMPRESSION_NAMES = [
    *(codec.name.lower() for codec in Codec),
    *(f"unknown({number})" for number in range(len(Codec), 8)),
]
BOOLEANS = ("false", "true")
_HOLE = "\0"
"""Marks the place of a large part of a line. JSON escapes it, so no other part can contain it."""


_BATCH = (
    *BatchHeader._fields,
    *("position", "size_in_bytes", "last_offset", "computed_crc", "is_valid", "last_sequence"),
    *("delete_horizon_ms", "compression", "timestamp_type", "is_transactional", "is_control"),
)
_LEGACY_BATCH = (
    *LegacyHeader._fields,
    *("position", "size_in_bytes", "last_offset", "computed_crc", "is_valid", "max_timestamp"),
    *("compression", "timestamp_type"),
)
_IS_VALID, _IS_VALID_LEGACY = _BATCH.index("is_valid"), _LEGACY_BATCH.index("is_valid")
_RECORD = (
    *("offset", "timestamp", "sequence", "key_size", "value_size", "timestamp_type", "of_batch"),
    *("headers", "key", "value", "contents", "control", "decoded", "attributes"),
    *("stored_timestamp", "crc", "is_valid"),
)
_Filler = Callable[[tuple[Any, ...]], str]


class RowWriter:
    """Writes the lines of batches. It checks offsets, so batches must be passed in order."""

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
                contents=options.contents,
                skip_record_metadata=options.skip_record_metadata,
                is_terminal=options.is_terminal,
            )
        self.last_offset = -1
        self.gaps = Gaps()
        self._options = options
        self._filters = options.filters
        self._is_filtered = bool(options.filters)
        self._report = report
        self._decoder = decoder
        self._decode = decoder.function if decoder else None
        lines = self.lines
        self._fill_batch = lines.batch.filler(_BATCH)
        self._fill_of_batch = lines.of_batch.filler(_BATCH)
        self._fill_legacy_batch = lines.legacy_batch.filler(_LEGACY_BATCH)
        self._fill_of_legacy_batch = lines.of_legacy_batch.filler(_LEGACY_BATCH)
        record = lines.record
        if isinstance(lines, JsonLines) and self._has_decoded:
            record = lines.decoded_record
        self._fill_record = record.filler(_RECORD)
        self._fill_control_record = lines.control_record.filler(_RECORD)
        self._fill_legacy_record = lines.legacy_record.filler(_RECORD)
        self._meanings: dict[int, tuple[str, str, str, str]] = {}
        self._no_headers = lines.headers(())
        self._no_horizon = lines.delete_horizon(None)

    def batch(self, batch: AnyBatch) -> Iterator[str]:
        """Yield the batch's line and, if requested, those of its records; in parts if many."""
        if self._is_filtered and not self._may_pass(batch):
            # The header cannot be trusted if the checksum is wrong: report that anyway.
            self.report_invalid(batch)
            return
        if isinstance(batch, RecordBatch):
            values = self._values(batch)
            line, is_valid = self._fill_batch(values), values[_IS_VALID]
        else:
            values = self._legacy_values(batch)
            line, is_valid = self._fill_legacy_batch(values), values[_IS_VALID_LEGACY]
        if is_valid == BOOLEANS[False]:
            self.report_invalid(batch)
        lines: Iterator[str] = iter(())
        if self._options.deep:
            try:
                records = self._records(batch)
            except FormatError as error:  # raised for the whole batch, before its first record
                self._report.found(error)
            else:
                lines = self._record_lines(batch, records, values)
                if self._is_filtered and (self._filters.keys or _has_records(batch)):
                    first = next(lines, None)
                    if first is None:
                        return
                    line += first
        yield from _joined(line, lines)

    def _records(self, batch: AnyBatch) -> Iterator[tuple[Record, tuple[Any, ...]]]:
        """Return the records, each with the last values of `_RECORD`, which are not in a Record."""
        ensure_within_limit(batch)
        if isinstance(batch, LegacyBatch):
            return self._legacy_records(batch)
        append_time = batch.header.log_append_time
        if append_time is None or not self.lines.is_json:
            return zip(batch.iter_records(), repeat(("",)))
        return (
            (record._replace(timestamp=append_time), (_stored_timestamp(record.timestamp),))
            for record in batch.iter_stored_records()
        )

    def _legacy_records(self, batch: LegacyBatch) -> Iterator[tuple[Record, tuple[Any, ...]]]:
        is_append_time = batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
        computed_crcs = (
            batch.iter_inner_crcs() if batch.header.codec_id else iter([batch.computed_crc])
        )
        return (
            (
                record,
                (
                    _stored_timestamp(message.header.timestamp) if is_append_time else "",
                    message.header.crc,
                    self._is_valid(batch, record, message, computed_crc),
                ),
            )
            for (record, message), computed_crc in zip(
                batch.iter_entries(), computed_crcs, strict=False
            )
        )

    def _is_valid(
        self, batch: LegacyBatch, record: Record, message: LegacyMessage, computed_crc: int
    ) -> str:
        """Return whether a message is valid. Report one inside a wrapper; the batch itself was."""
        stored_crc = message.header.crc
        if stored_crc != computed_crc and batch.header.codec_id:
            found = f"stored crc {stored_crc:#010x} of the message inside, offset {record.offset}"
            expected = f"computed crc {computed_crc:#010x}"
            self._report.found(CrcMismatchError(batch.location, found, expected))
        return BOOLEANS[stored_crc == computed_crc]

    def _values(self, batch: RecordBatch) -> tuple[Any, ...]:
        """Return the values of a batch, in the order of `_BATCH`."""
        header = batch.header
        attributes, computed_crc = header.attributes, batch.computed_crc
        meaning = self._meanings.get(attributes)
        if meaning is None:
            meaning = self._meanings[attributes] = (
                COMPRESSION_NAMES[attributes & CODEC_MASK],
                str(header.timestamp_type),
                BOOLEANS[header.is_transactional],
                BOOLEANS[header.is_control],
            )
        horizon = self._no_horizon
        if header.has_delete_horizon:
            horizon = self.lines.delete_horizon(header.delete_horizon_ms)
        return (
            *header,
            batch.position,
            len(batch.raw),
            header.last_offset,
            computed_crc,
            BOOLEANS[header.crc == computed_crc],
            header.last_sequence,
            horizon,
            *meaning,
        )

    def _legacy_values(self, batch: LegacyBatch) -> tuple[Any, ...]:
        """Return the values of a batch, in the order of `_LEGACY_BATCH`."""
        header, computed_crc = batch.header, batch.computed_crc
        return (
            *header,
            batch.position,
            len(batch.raw),
            header.last_offset,
            computed_crc,
            BOOLEANS[header.crc == computed_crc],
            header.max_timestamp,
            COMPRESSION_NAMES[header.codec_id],
            str(header.timestamp_type),
        )

    def _may_pass(self, batch: AnyBatch) -> bool:
        """Return whether the batch may have a record that passes, by its header."""
        filters, header = self._filters, batch.header
        first = last = header.last_offset
        earliest: int | None = header.max_timestamp
        producer_id = None
        if isinstance(batch, RecordBatch):
            first, producer_id = batch.header.base_offset, batch.header.producer_id
            if header.timestamp_type is TimestampType.CREATE_TIME:
                earliest = None if batch.header.has_delete_horizon else batch.header.base_timestamp
        elif header.codec_id:
            first = filters.start_offset or 0  # a wrapper stores only its last offset
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

    def _record_lines(
        self,
        batch: AnyBatch,
        records: Iterable[tuple[Record, tuple[Any, ...]]],
        of_batch: tuple[Any, ...],
    ) -> Iterator[str]:
        is_control, fill = False, self._fill_legacy_record
        timestamp_type = str(batch.header.timestamp_type)
        if isinstance(batch, LegacyBatch):
            batch_text = self._fill_of_legacy_batch(of_batch)
        else:
            batch_text = self._fill_of_batch(of_batch)
            is_control = batch.header.is_control
            fill = self._fill_control_record if is_control else self._fill_record
        for record, more_values in records:
            offset, timestamp, key, value, headers, sequence, attributes = record
            if offset != self.last_offset + 1:
                self.gaps.add(self.last_offset, offset)
            self.last_offset = offset
            if self._is_filtered and not self._passes(record):
                continue
            in_parts = self._is_large(record, is_control=is_control)
            shown = _HOLE if in_parts and self.lines.is_json else None
            if shown is None:
                shown = self.lines.headers(headers) if headers else self._no_headers
            line = fill(
                (
                    offset,
                    timestamp,
                    sequence,
                    -1 if key is None else len(key),
                    -1 if value is None else len(value),
                    timestamp_type,
                    batch_text,
                    shown,
                    *self._parts(record, batch, is_control=is_control, in_parts=in_parts),
                    attributes,
                    *more_values,
                )
            )
            if in_parts:
                yield from self._in_parts(line, record, batch)
            else:
                yield line

    def _is_large(self, record: Record, *, is_control: bool) -> bool:
        """Return whether the line is too large to be held in memory as one text."""
        if not self._options.contents:
            return False
        if len(record.value or b"") > SLICE or len(record.key or b"") > SLICE:
            # A record decoder returns its text in one part.
            return self.lines.is_json or (self._decode is None and not is_control)
        return self.lines.is_json and any(
            len(header.value or b"") > SLICE for header in record.headers
        )

    def _in_parts(self, line: str, record: Record, batch: AnyBatch) -> Iterator[str]:
        if isinstance(self.lines, TextLines):
            first, last = line.rsplit(_HOLE, 1)  # keys of headers can have any character
            yield first
            options = self._options
            yield from self.lines.content_parts(
                self._text_parts(options.key_decoder, record.key, "key", batch),
                self._text_parts(options.value_decoder, record.value, "value", batch),
            )
            yield last
            return
        first, second, third, last = line.split(_HOLE)
        yield first
        yield from member_parts("key", record.key)
        yield second
        yield from member_parts("value", record.value)
        yield third
        yield from self.lines.header_parts(record.headers)
        yield last

    def _parts(
        self, record: Record, batch: AnyBatch, *, is_control: bool, in_parts: bool
    ) -> tuple[str, str, str, str, str]:
        """Return key, value, contents, control and decoded, of which a line uses some."""
        control = self._control(record, batch) if is_control else ""
        if not self._options.contents:
            return "", "", "", control, ""
        if isinstance(self.lines, JsonLines):
            decoded = "" if is_control else self._decoded(record, batch)
            if in_parts:
                return _HOLE, _HOLE, "", control, decoded
            return member("key", record.key), member("value", record.value), "", control, decoded
        if is_control:
            return "", "", "", control, ""
        if in_parts:
            return "", "", _HOLE, "", ""
        return "", "", self.lines.contents(*self._texts(record, batch)), "", ""

    @property
    def _has_decoded(self) -> bool:
        """Whether a decoder other than text is used."""
        return self._options.contents and (
            self._decode is not None
            or self._options.key_decoder in _NUMBERS
            or self._options.value_decoder in _NUMBERS
        )

    def _texts(self, record: Record, batch: AnyBatch) -> tuple[str | None, str | None]:
        """Return the texts after `key: ` and `payload: `."""
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

    def _text_parts(
        self, decoder: BytesDecoder, data: bytes | None, what: str, batch: AnyBatch
    ) -> Iterable[str] | None:
        """Return `_text` in slices."""
        if data is None:
            return None
        if decoder is BytesDecoder.STRING:
            return text_parts(data)
        if decoder is BytesDecoder.DEFAULT:
            return base64_parts(data)
        text = self._text(decoder, data, what, batch)
        return None if text is None else (text,)

    def _number(self, decoder: BytesDecoder, data: bytes, what: str, batch: AnyBatch) -> int | None:
        """Return the first bytes as an integer; report if there are fewer: the tool crashes."""
        size = _NUMBERS[decoder]
        if len(data) < size:
            found, expected = f"a {what} of {len(data)} bytes", f"at least {size}"
            self._report.found(MalformedRecordError(batch.location, found, expected))
            return None
        return int.from_bytes(data[:size], "big", signed=True)

    def _decoded(self, record: Record, batch: AnyBatch) -> str:
        """Return the members with decoded values, which follow those with the bytes."""
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
                return self.lines.control(control_record_text(record.key, record.value))
            return _control_members(record)
        except FormatError as error:
            self._report.found(error.moved(batch.path, batch.position))
            return ""


def ensure_within_limit(batch: AnyBatch) -> None:
    """Raise OverLimitError if the stored batch is too large; codecs check the decompressed size."""
    limit = access().max_decompressed_bytes
    if len(batch.raw) > limit:
        found = f"a batch of {len(batch.raw)} bytes, not decoded"
        expected = f"at most {limit} bytes (--max-decompressed-bytes)"
        raise OverLimitError(batch.location, found, expected)


def _has_records(batch: AnyBatch) -> bool:
    return isinstance(batch, LegacyBatch) or batch.header.record_count > 0


def _stored_timestamp(timestamp: int) -> str:
    return STORED_TIMESTAMP % timestamp


def _joined(line: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a batch and its records as one text or, if it is long, as several.

    A line that is yielded in parts is completed before the next record is decoded, because a
    finding in that record is a line as well.
    """
    part, size, is_within = [line], len(line), False
    for text in lines:
        part.append(text)
        size += len(text)
        is_end = text.endswith("\n")
        if size > _PART or (is_within and is_end):
            yield "".join(part)
            part, size, is_within = [], 0, not is_end
    if part:
        yield "".join(part)


def _control_members(record: Record) -> str:
    decoded = decode_control_record(record.key, record.value)
    known = isinstance(decoded.type, ControlRecordType)
    name = decoded.type.name if isinstance(decoded.type, ControlRecordType) else int(decoded.type)
    value = json_text(decoded.value.to_json()) if isinstance(decoded.value, Message) else "null"
    shown = f',"control_type":{json_text(name)},"control_type_version":{decoded.key.version}'
    return f'{shown},"control":{value}' if known else shown


def _as_json(text: str | None) -> str:
    """Return JSON unchanged; other texts of the decoders, which are error messages, as strings."""
    if text is None:
        return "null"
    return text if text.startswith("{") else json_text(text)


def _remote_node(value: bytes | None) -> str | None:
    """Return the record as JSON: the decoder's text is in the format of Java's toString."""
    from kafka_format.remote_log_metadata import decode_remote_log_metadata

    try:
        record = decode_remote_log_metadata(value)
    except FormatError:
        return None
    if not isinstance(record.value, Message):
        return None
    node = {"type": record.name, "version": record.version, "data": record.value.to_json()}
    return json_text(node)
