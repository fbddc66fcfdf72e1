"""Read a large file in pieces: an index may have two gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.access import EvidenceFile

PIECE = 1024 * 1024
_ZEROS = bytes(PIECE)


def iter_pieces(file: EvidenceFile, start: int, end: int, size: int = PIECE) -> Iterator[bytes]:
    """Yield the bytes from `start` to `end`. Raises ChangedError if the file shrank."""
    while start < end:
        file.seek(start)
        data = file.read(min(size, end - start))
        while len(data) < min(size, end - start):  # a piece must be a whole number of slots
            data += file.read(min(size, end - start) - len(data))
        yield data
        start += len(data)


def zeros_from(file: EvidenceFile, position: int, end: int) -> int:
    """Return how many zeros follow `position`."""
    zeros = 0
    for data in iter_pieces(file, position, end):
        if not _ZEROS.startswith(data):  # faster than stripping zeros
            return zeros + len(data) - len(data.lstrip(b"\0"))
        zeros += len(data)
    return zeros


def end_before_zeros(file: EvidenceFile) -> int:
    """Return where the zeros at the end of the file begin."""
    for start in range((file.size - 1) // PIECE * PIECE, -1, -PIECE):
        (data,) = iter_pieces(file, start, min(start + PIECE, file.size))
        if not _ZEROS.startswith(data):
            return start + len(data.rstrip(b"\0"))
    return 0
