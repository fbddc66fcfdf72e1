"""Write the lines of a dump to a stream, in large pieces. Findings are written by report.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

from kafka_format.shown_text import escaped, json_escaped, name_base64, name_bytes, name_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_log.inventory.directory import FoundFile

_PIECE = 256 * 1024


class Output:
    """Buffers bytes for stdout.

    Control characters are never written to a terminal. Text from the evidence is escaped before it
    becomes part of a line (`TextLines`, `line`), since only then a newline of a value can be
    distinguished from the end of the line. JSON escapes such newlines anyway.
    """

    def __init__(self, stream: BinaryIO, *, is_terminal: bool = False) -> None:
        self._stream = stream
        self._parts: list[bytes] = []
        self._size = 0
        self._is_terminal = is_terminal
        self.failure: OSError | None = None
        """The error of the stream, to distinguish it from errors of the files that are read."""

    def write(self, data: bytes | memoryview) -> None:
        if self._size + len(data) < _PIECE:
            self._parts.append(bytes(data))
            self._size += len(data)
        else:
            self._write_parts()
            self._put(data)

    def text(self, text: str) -> None:
        """Write JSON, or lines of text that `TextLines` made."""
        self.write(name_bytes(json_escaped(text) if self._is_terminal else text))

    def line(self, text: str) -> None:
        """Write one line of text, given without its end."""
        self.write(name_bytes(f"{escaped(text) if self._is_terminal else text}\n"))

    def flush(self) -> None:
        self._write_parts()
        try:
            self._stream.flush()
        except OSError as error:
            self.failure = error
            raise

    def _write_parts(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._put(b"".join(parts))

    def _put(self, data: bytes | memoryview) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            self.failure = error
            raise


def file_fields(file: FoundFile) -> dict[str, object]:
    """Return the fields that identify a row's file: the first fields of every row after `kind`."""
    return {**path_fields(file.path), **partition_fields(file)}


def path_fields(path: str) -> dict[str, object]:
    """Return the path of a row; one that is not UTF-8 also with its bytes in base64."""
    fields: dict[str, object] = {"path": name_text(path)}
    raw = name_base64(path)
    return fields if raw is None else fields | {"path_base64": raw}


def partition_fields(file: FoundFile | None) -> dict[str, object]:
    if file is None or file.topic is None:
        return {"topic": None, "partition": None}
    return {"topic": name_text(file.topic), "partition": file.partition}


def json_line(row: Mapping[str, object]) -> str:
    line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    if any("\ud800" <= character <= "\udfff" for character in line):  # a lone surrogate
        line = json.dumps(row, separators=(",", ":"))
    return f"{line}\n"
