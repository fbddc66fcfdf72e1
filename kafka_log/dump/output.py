"""Where the lines go: data to one stream, in large pieces; findings and reports to the other."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, BinaryIO, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_format.errors import FormatError, Location
    from kafka_log.directory import FoundFile
    from kafka_log.dump.gaps import Gaps

_PIECE = 256 * 1024


class Output:
    """Bytes for stdout, handed on when there are enough of them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._parts: list[bytes] = []
        self._size = 0
        self.is_broken = False
        """Whether the stream has refused something: no file that was read is to blame for that."""

    def write(self, data: bytes | memoryview) -> None:
        if self._size + len(data) < _PIECE:
            self._parts.append(bytes(data))
            self._size += len(data)
        else:
            self._hand_on()
            self._put(data)

    def text(self, text: str) -> None:
        self.write(encoded(text))

    def flush(self) -> None:
        self._hand_on()
        try:
            self._stream.flush()
        except OSError:
            self.is_broken = True
            raise

    def _hand_on(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._put(b"".join(parts))

    def _put(self, data: bytes | memoryview) -> None:
        try:
            self._stream.write(data)
        except OSError:
            self.is_broken = True
            raise


class Report:
    """What is wrong: our findings as they are met, and the original's reports at the end."""

    def __init__(self, output: Output, errors: TextIO, *, json_rows: bool) -> None:
        self._output = output
        self._errors = errors
        self._json_rows = json_rows
        self.is_damaged = False
        self.is_unreadable = False
        self._index_mismatches: dict[str, dict[int, int]] = {}
        self._timestamp_mismatches: dict[str, list[tuple[int, int]]] = {}
        self._timestamps_out_of_order: dict[str, list[tuple[int, int]]] = {}
        self._offsets_not_found: dict[str, list[tuple[int, int]]] = {}
        self._non_consecutive: dict[str, Gaps] = {}
        self._file: FoundFile | None = None

    def begin(self, file: FoundFile) -> None:
        """What is found from here on is of this file, or of one beside it."""
        self._file = file

    def say(self, text: str) -> None:
        """Talk: neither data nor damage."""
        self._errors.write(f"{printable(text)}\n")

    def unreadable(self, path: str, reason: str) -> None:
        self.is_unreadable = True
        self.say(f"{path}: cannot be read: {reason}")

    def found(self, error: FormatError) -> None:
        self.is_damaged = True
        self.say(str(error))
        self._row(error.location, "damage", found=error.found, expected=error.expected)

    def index_mismatch(self, entry: Location, index_offset: int, log_offset: int) -> None:
        """An entry's offset, and the last offset of the batch that it points at."""
        self.is_damaged = True
        self._index_mismatches.setdefault(entry.path, {})[index_offset] = log_offset
        self._row(entry, "index_mismatch", index_offset=index_offset, log_offset=log_offset)

    def timestamp_mismatch(self, entry: Location, timestamp: int, log_timestamp: int) -> None:
        self.is_damaged = True
        self._timestamp_mismatches.setdefault(entry.path, []).append((timestamp, log_timestamp))
        self._row(
            entry, "timestamp_mismatch", index_timestamp=timestamp, log_timestamp=log_timestamp
        )

    def timestamp_out_of_order(self, entry: Location, timestamp: int, previous: int) -> None:
        self.is_damaged = True
        self._timestamps_out_of_order.setdefault(entry.path, []).append((timestamp, previous))
        self._row(
            entry,
            "timestamp_out_of_order",
            index_timestamp=timestamp,
            previous_index_timestamp=previous,
        )

    def offset_not_found(
        self, entry: Location, index_offset: int, log_offset: int, *, is_damage: bool
    ) -> None:
        self._offsets_not_found.setdefault(entry.path, []).append((index_offset, log_offset))
        if not is_damage:
            return
        self.is_damaged = True
        self._row(
            entry,
            "offset_not_found",
            index_offset=index_offset,
            log_offset=None if log_offset == -1 else log_offset,
        )

    def non_consecutive(self, file: FoundFile, gaps: Gaps) -> None:
        """Gaps between offsets: no damage, since compaction and transactions leave them."""
        self._non_consecutive[file.path] = gaps
        if not self._json_rows:
            return
        start = json_line({"kind": "non_consecutive", **file_fields(file)})[:-2]
        for offset, following in gaps:
            if offset >= 0:  # the original begins to count at -1, where no record is
                self._output.text(f'{start},"offset":{offset},"followed_by":{following}}}\n')

    def summarize(self) -> None:
        """The original's reports, in its words and its order."""
        for path, mismatches in self._index_mismatches.items():
            self.say(f"Mismatches in :{absolute(path)}")
            for index_offset, log_offset in sorted(mismatches.items(), reverse=True):
                self.say(f"  Index offset: {index_offset}, log offset: {log_offset}")
        for path, pairs in self._timestamp_mismatches.items():
            self.say(f"Found timestamp mismatch in :{absolute(path)}")
            for timestamp, log_timestamp in pairs:
                self.say(f"  Index timestamp: {timestamp}, log timestamp: {log_timestamp}")
        for path, pairs in self._timestamps_out_of_order.items():
            self.say(f"Found out of order timestamp in :{absolute(path)}")
            for timestamp, previous in pairs:
                self.say(
                    f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
                )
        for path, pairs in self._offsets_not_found.items():
            self.say(f"The following indexed offsets are not found in :{absolute(path)}")
            for index_offset, log_offset in pairs:
                self.say(f"Indexed offset: {index_offset}, found log offset: {log_offset}")
        for path, gaps in self._non_consecutive.items():
            self.say(f"Non-consecutive offsets in {absolute(path)}")
            for offset, following in gaps:
                self.say(f"  {offset} is followed by {following}")

    def _row(self, location: Location, problem: str, **fields: object) -> None:
        if not self._json_rows:
            return
        row = {"kind": "finding", **_path_fields(location.path), **_partition_fields(self._file)}
        row |= {"problem": problem, "position": location.position, **fields}
        self._output.text(json_line(row))


def file_fields(file: FoundFile) -> dict[str, object]:
    """Which file a row is of: the first fields of them all, behind its kind."""
    return {**_path_fields(file.path), **_partition_fields(file)}


def _path_fields(path: str) -> dict[str, object]:
    """A path that is no UTF-8 is shown as well as can be, and its bytes beside."""
    fields: dict[str, object] = {"path": printable(path)}
    if fields["path"] != path:
        fields["path_base64"] = base64.b64encode(encoded(path)).decode()
    return fields


def _partition_fields(file: FoundFile | None) -> dict[str, object]:
    if file is None or file.topic is None:
        return {"topic": None, "partition": None}
    return {"topic": printable(file.topic), "partition": file.partition}


def json_line(row: Mapping[str, object]) -> str:
    line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    if any("\ud800" <= character <= "\udfff" for character in line):  # half a character
        line = json.dumps(row, separators=(",", ":"))
    return f"{line}\n"


def encoded(text: str) -> bytes:
    """Names that are not UTF-8 become the bytes they were; half a character a "?", as in Java."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def absolute(path: str) -> str:
    """java.io.File.getAbsolutePath, which leaves `.` and `..` alone."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118


def printable(text: str) -> str:
    return encoded(text).decode("utf-8", "replace")
