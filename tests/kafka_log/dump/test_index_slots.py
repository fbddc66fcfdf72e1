"""Side files of any size: a few slots in memory at a time, and the same answers."""

import os
import struct
import tracemalloc
from pathlib import Path

import pytest

from kafka_format import offset_index, time_index
from kafka_format.access import open_evidence
from kafka_format.index_end import Stop
from kafka_log.dump import index_slots
from kafka_log.dump.index_slots import IndexSlots
from tests.kafka_log.dump.comparison import run

MIB = 1024 * 1024
BOUND = 16 * MIB
SPARSE = 256 * MIB


def offsets(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


def times(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


THREE = offsets((1, 100), (2, 200), (3, 300))
THREE_LINES = ["offset: 1 position: 100", "offset: 2 position: 200", "offset: 3 position: 300"]
TWO_LINES = ["timestamp: 5 offset: 1", "timestamp: 6 offset: 2"]
NO_TRANSACTION = "version: 0 producerId: 0 firstOffset: 0 lastOffset: 0 lastStableOffset: 0"
TRANSACTION = struct.pack(">hqqqq", 0, 1, 2, 3, 4)
TRANSACTION_LINE = "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
ENDS = {
    "nothing": (b"", (0, 0, 0, Stop.END_OF_FILE)),
    "entries": (THREE, (24, 0, 0, Stop.END_OF_FILE)),
    "zeros behind": (THREE + bytes(20), (24, 20, 0, Stop.ZERO_PADDING)),
    "zeros alone": (bytes(40), (0, 40, 0, Stop.ZERO_PADDING)),
    "a part behind": (THREE + b"\1\2\3", (24, 0, 3, Stop.PARTIAL_ENTRY)),
    "zeros and a part": (THREE + bytes(16) + b"\1", (24, 16, 1, Stop.ZERO_PADDING)),
    "an entry behind zeros": (THREE + bytes(17) + b"\1" * 7, (24, 16, 8, Stop.ZERO_PADDING)),
    "one that falls": (THREE + offsets((2, 400), (9, 900)), (24, 0, 16, Stop.OUT_OF_ORDER)),
    "one below zero": (THREE + offsets((-4, 400)), (24, 0, 8, Stop.OUT_OF_RANGE)),
}


@pytest.mark.parametrize("slots", [1, 2, 3, 1000])
@pytest.mark.parametrize("name", ENDS)
def test_entries_end_where_they_do_however_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, slots: int
) -> None:
    monkeypatch.setattr(index_slots, "PIECE_SLOTS", slots)
    data, expected = ENDS[name]
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(data)
    with open_evidence(path) as file:
        index = IndexSlots(file, offset_index.DTYPE, offset_index.decode_offset_index)
        assert index.end() == expected
        assert index.entries().tolist() == [(1, 100), (2, 200), (3, 300)][: expected[0] // 8]


@pytest.mark.parametrize("slots", [2, 3, 1000])
def test_zeros_at_the_base_offset_end_what_is_shown_but_in_slot_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    monkeypatch.setattr(index_slots, "PIECE_SLOTS", slots)
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(times((7, 0), (8, 1), (9, 2), (9, 0), (10, 3)))
    with open_evidence(path) as file:
        index = IndexSlots(file, time_index.DTYPE, time_index.decode_time_index)
        shown = [(position, slots.tolist()) for position, slots in index.dumped()]
        ends = index[0], index[-1]
    assert [entry for _, some in shown for entry in some] == [(7, 0), (8, 1), (9, 2)]
    assert all(position % (12 * slots) == 0 for position, _ in shown)
    assert ends == (
        {"timestamp": 7, "relative_offset": 0},
        {"timestamp": 10, "relative_offset": 3},
    )


@pytest.mark.parametrize(
    ("suffix", "first", "size", "lines"),
    [
        (".index", THREE, SPARSE, THREE_LINES),
        (".timeindex", times((5, 1), (6, 2)), SPARSE, TWO_LINES),
        (".snapshot", struct.pack(">hIi", 1, 5, 3), SPARSE, []),
        (".txnindex", b"", 34 * 50_000, [NO_TRANSACTION]),
        (".txnindex", TRANSACTION, SPARSE, [TRANSACTION_LINE, NO_TRANSACTION]),
        (".txnindex", TRANSACTION * 50_000, 34 * 50_000, [TRANSACTION_LINE] * 50_000),
    ],
)
def test_a_large_side_file_takes_little_memory(
    tmp_path: Path, suffix: str, first: bytes, size: int, lines: list[str]
) -> None:
    path = tmp_path / f"{0:020d}{suffix}"
    path.write_bytes(first)
    os.truncate(path, size)
    run(path, "--max-bytes", 0)  # all that it imports
    tracemalloc.start()
    dumped = run(path)
    used = tracemalloc.get_traced_memory()[1] - 3 * len(dumped.stdout)
    tracemalloc.stop()
    assert used < BOUND
    shown = dumped.stdout.split("\n")[1:-1]
    assert shown == lines


def test_a_time_index_beside_a_large_offset_index_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.timeindex"
    path.write_bytes(times((5, 1)))
    path.with_suffix(".log").write_bytes(b"")
    index = path.with_suffix(".index")
    index.write_bytes(THREE)
    os.truncate(index, SPARSE)
    run(path)
    tracemalloc.start()
    run(path)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < BOUND


@pytest.mark.parametrize(
    ("data", "position", "zeros"),
    [
        (bytes(34), None, 0),  # one slot of zeros is printed as the original does
        (bytes(68), 34, 34),
        (TRANSACTION + bytes(35), 68, 1),
        (TRANSACTION + bytes(100), 68, 66),
        (TRANSACTION + bytes(100) + b"\1" + bytes(33), None, 0),
    ],
)
def test_zeros_at_the_end_of_a_transaction_index_are_no_entries(
    tmp_path: Path, data: bytes, position: int | None, zeros: int
) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    path.write_bytes(data)
    findings = [
        (row["position"], row["found"])
        for row in run(path, "--format", "json").of_kind("finding")
        if "zeros" in row["found"]
    ]
    expected = [] if position is None else [(position, f"{zeros} bytes of zeros up to the end")]
    assert findings == expected
