"""The end of a log by a few headers, with an index that helps, misleads or is not there."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.inventory.log_end import LogEnd, read_log_end
from tests import golden

BASE = 1000


def write(directory: Path, batches: int = 200) -> tuple[Path, Path, list[int]]:
    """A segment with an entry for every tenth batch, and the position of each batch."""
    data, positions = b"", []
    for number in range(batches):
        positions.append(len(data))
        record = SimpleRecord(0, b"k", b"v" * 100)
        data += encode_batch([record, record], base_offset=BASE + 2 * number)
    log, index = directory / f"{BASE:020d}.log", directory / f"{BASE:020d}.index"
    log.write_bytes(data)
    index.write_bytes(
        b"".join(
            struct.pack(">ii", 2 * number + 1, positions[number])
            for number in range(10, batches, 10)
        )
    )
    return log, index, positions


def test_the_end_is_behind_the_last_batch(tmp_path):
    log, index, _ = write(tmp_path)
    whole = LogEnd(BASE + 400, log.stat().st_size, "end_of_file")
    assert read_log_end(log, BASE, index=index) == whole
    assert read_log_end(log, BASE) == whole


def test_only_the_bytes_behind_the_last_entry_are_read(tmp_path):
    log, index, positions = write(tmp_path)
    with log.open("r+b") as file:
        file.write(b"\xff" * positions[180])  # whatever was before
    end = read_log_end(log, BASE, index=index)
    assert end == LogEnd(BASE + 400, log.stat().st_size, "end_of_file")


@pytest.mark.parametrize("entries", [0, 1, 7, 19])
def test_zeros_behind_the_entries_are_no_entries(tmp_path, entries):
    log, index, _ = write(tmp_path)
    index.write_bytes(index.read_bytes()[: 8 * entries] + bytes(10_000))
    assert read_log_end(log, BASE, index=index).offset == BASE + 400


@pytest.mark.parametrize(
    "entry", [(399, 7), (5, 1_000_000), (5, 2**31 - 1), (2**31 - 1, 1), (-1, -1)]
)
def test_an_index_that_lies_is_not_believed(tmp_path, entry):
    log, index, _ = write(tmp_path)
    index.write_bytes(index.read_bytes() + struct.pack(">ii", *entry))
    assert read_log_end(log, BASE, index=index).offset == BASE + 400


def test_a_torn_and_a_zeroed_end_are_told(tmp_path):
    log, index, positions = write(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    torn = read_log_end(log, BASE, index=index)
    assert torn == LogEnd(BASE + 398, positions[-1], "truncated_batch")
    log.write_bytes(whole + bytes(4096))
    assert read_log_end(log, BASE, index=index) == LogEnd(BASE + 400, len(whole), "zeroed_tail")


def test_an_empty_log_ends_where_it_begins(tmp_path):
    log = tmp_path / f"{BASE:020d}.log"
    log.touch()
    assert read_log_end(log, BASE, index=tmp_path / "gone.index") == LogEnd(BASE, 0, "end_of_file")
    log.write_bytes(bytes(100))
    assert read_log_end(log, BASE) == LogEnd(BASE, 0, "zeroed_tail")


def test_a_log_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_log_end(tmp_path / "gone.log", BASE)


@pytest.mark.parametrize("pack", golden.names())
def test_partitions_end_where_kafkas_consumer_was_told(pack):
    ends = {
        (each["topic"], each["partition"]): each["end_offset"]
        for each in golden.expected(pack)
        if each.get("end_offset") is not None and each["isolation"] == "read_uncommitted"
    }
    found = {}
    for log_dir in golden.log_dirs(golden.shared(pack)):
        for topic, partition in ends:
            directory = log_dir / f"{topic}-{partition}"
            logs = sorted(directory.glob("*.log"))
            if logs:
                base = int(logs[-1].stem)
                end = read_log_end(logs[-1], base, index=logs[-1].with_suffix(".index"))
                found[topic, partition] = end.offset
    internal = {key for key in ends if key[0].startswith("__")}  # these go on until the stop
    assert {key: found[key] for key in ends if key not in internal} == {
        key: end for key, end in ends.items() if key not in internal
    }
    assert all(found[key] >= ends[key] for key in internal)


def test_it_needs_no_numpy():
    program = "import sys, kafka_log.inventory.log_end; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
