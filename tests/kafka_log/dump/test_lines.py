"""A large record is one line of text or JSON, and no line is ever held as a whole."""

import base64
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import Header, SimpleRecord
from kafka_log.dump import DumpOptions, Output, Report, columns, dump, kernels
from kafka_log.dump.lines import SLICE
from kafka_log.inventory.directory import find_files
from tests.kafka_log.dump.comparison import ENGINES, assert_same, run
from tests.oracle.client import Oracle

TEXTS = {
    "letters that become six": "\0" * (2 * SLICE + 1),
    "letters over the edge of a slice": "\U0001f600é" * SLICE,
    "quotes and ends of lines": '"\\\n\u2028' * SLICE,
    "just a slice": "a" * SLICE,
}


def log_of(folder: Path, *records: SimpleRecord, codec: Codec = Codec.NONE) -> Path:
    log = folder / "orders-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(encode_batch(records, base_offset=0, codec=codec))
    return log


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_large_texts_are_whole_in_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, engine: str
) -> None:
    monkeypatch.setattr(columns, "_LARGE", SLICE)
    data = text.encode()
    log = log_of(
        tmp_path,
        SimpleRecord(1, b"small", b"before"),
        SimpleRecord(2, data, data, (Header("a", b"1"), Header("b", data), Header("c", None))),
        SimpleRecord(3, None, data[:5]),
    )
    dumped = run(log, "--print-data-log", "--format", "json", engine=engine)
    small, large, last = dumped.of_kind("record")
    assert (small["value"], last["key"]) == ("before", None)
    assert large["key"] == large["value"] == text
    assert large["headers"] == [
        {"key": "a", "value": "1"},
        {"key": "b", "value": text},
        {"key": "c", "value": None},
    ]
    assert list(large)[-3:] == ["key", "value", "headers"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", [b"\xff", b"\xf0\x9f\x98"], ids=["no UTF-8", "half a letter"])
def test_large_bytes_that_are_no_text_are_base64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, engine: str
) -> None:
    monkeypatch.setattr(columns, "_LARGE", SLICE)
    data = b"a" * (2 * SLICE + 1) + end
    log = log_of(tmp_path, SimpleRecord(1, None, data))
    (row,) = run(log, "--print-data-log", "--format", "json", engine=engine).of_kind("record")
    assert "value" not in row
    assert base64.b64decode(row["value_base64"], validate=True) == data


# Slices end within a letter, within what is none, and within half a pair as Java counts it.
BROKEN = {
    "text": "\U0001f600é" * SLICE,
    "no letter at all": b"\xff" * (2 * SLICE + 1),
    "only what follows a first byte": b"\x80" * (2 * SLICE + 1),
    "letters without an end": b"\xf0\x9f\x98" * SLICE,
    "halves of pairs": b"\xed\xa0\x80\xed\xb0" * SLICE,
    "a zero and the end of a line": b"\0\n" * SLICE,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_large_contents_are_in_text_as_the_original_prints_them(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data, engine: str
) -> None:
    monkeypatch.setattr(columns, "_LARGE", SLICE)
    data = data.encode() if isinstance(data, str) else data
    log = log_of(
        tmp_path,
        SimpleRecord(1, b"small", b"before"),
        SimpleRecord(2, data, b"\0", (Header("\0", b"1"), Header("b", data))),
        SimpleRecord(3, data[1:], None),
        SimpleRecord(4, None, data[2:]),
    )
    for flags in (["--print-data-log"], ["--print-data-log", "--skip-record-metadata"]):
        assert_same(oracle, [log], *flags, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_other_decoders_meet_large_contents(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(columns, "_LARGE", SLICE)
    data = bytes(range(256)) * (SLICE // 100)
    log = log_of(tmp_path, SimpleRecord(1, data, data[1:]), SimpleRecord(2, b"12345678", data))
    api = "org.apache.kafka.tools.api"
    assert_same(oracle, [log], "--key-decoder-class", f"{api}.LongDecoder", engine=engine)
    in_base64 = ("--value-decoder-class", f"{api}.DefaultDecoder", "--skip-record-metadata")
    printed = run(log, *in_base64, engine=engine).stdout
    assert f" payload: {base64.b64encode(data[1:]).decode()}\n" in printed
    assert printed.endswith(f"\n| key: 12345678 payload: {base64.b64encode(data).decode()}\n")


LARGE = 8 * 1024 * 1024


@pytest.mark.parametrize(
    ("form", "letter", "becomes"),
    [("json", b"\0", 6), ("text", b"\0", 1), ("text", b"\xff", 3)],
    ids=["JSON", "text", "text of bytes that are none"],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_line_of_a_large_record_costs_a_few_times_its_bytes(
    tmp_path: Path, form: Any, letter: bytes, becomes: int, engine: Any
) -> None:
    """A value that takes 4 to 24 times as much of Python's memory."""
    value = letter * LARGE + "\U0001f600".encode()
    log = log_of(tmp_path, SimpleRecord(1, None, value), codec=Codec.ZSTD)
    written = _Digest()
    output = Output(written)
    options = DumpOptions(deep=True, contents=True, format=form, engine=engine)
    report = Report(output, io.StringIO(), json_rows=form == "json")
    if engine == "columns":
        kernels.load(compiled=True)
    tracemalloc.start()
    dump(find_files(str(log)), options, output, report)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written.size > becomes * LARGE
    assert peak < (4 if engine == "rows" else 6) * LARGE


class _Digest(io.BytesIO):
    """Forgets what is written, but for how much it was."""

    size = 0

    def write(self, data) -> int:
        self.size += len(data)
        return len(data)


def test_a_line_is_the_same_as_json_makes_of_it_at_once(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0xD800))) * 4
    log = log_of(tmp_path, SimpleRecord(1, None, text.encode()))
    dumped = run(log, "--print-data-log", "--format", "json", engine="rows")
    (line,) = [each for each in dumped.stdout.split("\n") if '"kind":"record"' in each]
    assert f'"value":{json.dumps(text, ensure_ascii=False)},' in line
