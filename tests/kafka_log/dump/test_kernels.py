"""The kernels as plain Python, by hand-made expectations; compiled they are tested by the dumps."""

import numpy as np
import pytest

from kafka_format.columnar import compilation
from kafka_format.java_text import decode_utf8
from kafka_log.dump import kernels
from tests.kafka_log.dump.test_dump_oracle import ODD_BYTES, odd_records, write_log

PLAIN = kernels.load(compiled=False)


@pytest.fixture(params=[False, True], ids=["plain", "compiled"])
def loaded(request: pytest.FixtureRequest):
    if request.param and not compilation.can_compile():
        pytest.skip("needs compiled kernels: numba is missing or switched off")
    return kernels.load(compiled=request.param)


def rendered(loaded, ops, spans, columns, room=1000) -> bytes:
    texts = [text.encode() for text in spans]
    ends = np.cumsum([len(text) for text in texts])
    table = np.stack([ends - [len(text) for text in texts], ends], axis=1).astype(np.int64)
    out, starts = np.zeros(room, np.uint8), np.zeros(np.shape(columns)[1] + 1, np.int64)
    end = loaded.render_batches(
        np.array(ops, np.int64),
        np.frombuffer(b"".join(texts), np.uint8),
        table,
        np.array(columns, np.int64),
        out,
        starts,
    )
    assert starts[-1] == end
    return out[:end].tobytes()


@pytest.mark.parametrize(
    "number",
    [
        *(0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12345, 123456, 1_700_000_000_000),
        *(10**17, 10**18 - 1, 10**18, 2**63 - 1, -1, -10, -99, -100, -(2**63) + 1, -(2**63)),
    ],
)
def test_a_number_is_written_in_decimal(loaded, number: int) -> None:
    ops = [(kernels.NUMBER, 0, 0, 0, 0), (kernels.LITERAL, 0, 0, 0, 0)]
    assert rendered(loaded, ops, ["|"], [[number]]) == f"{number}|".encode()


def test_choices_and_optionals(loaded) -> None:
    ops = [
        (kernels.CHOICE, 0, 1, 0, 0),
        (kernels.LITERAL, 0, 0, 0, 0),
        (kernels.OPTIONAL, 1, 2, 3, 4),
        (kernels.LITERAL, 6, 0, 0, 0),
    ]
    spans = [" ", "no", "yes", "none", "some[", "]", "\n"]
    columns = [[0, 1], [5, 7], [1, 0]]
    assert rendered(loaded, ops, spans, columns) == b"no some[5]\nyes none\n"


@pytest.mark.parametrize("data", ODD_BYTES)
def test_plain_kernels_replace_bytes_as_java_does(data: bytes) -> None:
    """`decode_utf8` is held against Java in test_dump_oracle."""
    out = np.zeros(3 * len(data) + 1, np.uint8)
    end = PLAIN.put_text(out, 0, memoryview(data), 0, len(data))
    assert out[:end].tobytes() == decode_utf8(data).encode()


@pytest.mark.parametrize(
    ("data", "inside"),
    [
        (b"", b""),
        (b"abc", b"abc"),
        (b'a"b\\c/', b'a\\"b\\\\c/'),
        (b"\b\t\n\f\r\x00\x1f\x7f", b"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f"),
        ("ж世𐍈".encode() * 9, "ж世𐍈".encode() * 9),
    ],
)
def test_plain_kernels_quote_as_json_does(data: bytes, inside: bytes) -> None:
    out = np.zeros(6 * len(data) + 1, np.uint8)
    end = PLAIN.put_quoted(out, 0, memoryview(data), 0, len(data))
    assert out[:end].tobytes() == inside


@pytest.mark.parametrize("data", [b"\xff", b"abc\xed\xa0\x80", b"x" * 40 + b"\xc3"])
def test_what_is_no_utf8_cannot_be_quoted(data: bytes) -> None:
    out = np.zeros(6 * len(data) + 1, np.uint8)
    assert PLAIN.put_quoted(out, 0, memoryview(data), 0, len(data)) == -1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", b""),  # the vectors of RFC 4648
        (b"f", b"Zg=="),
        (b"fo", b"Zm8="),
        (b"foo", b"Zm9v"),
        (b"foobar", b"Zm9vYmFy"),
        (b"\xfb\xff\xbf", b"+/+/"),
    ],
)
def test_plain_kernels_write_base64(data: bytes, text: bytes) -> None:
    out = np.zeros(40, np.uint8)
    end = PLAIN.put_base64(out, 0, memoryview(data), 0, len(data))
    assert out[:end].tobytes() == text


@pytest.mark.parametrize("flags", [("--print-data-log",), ("--deep-iteration", "--format", "json")])
def test_uncompiled_columns_give_the_same_lines(oracle, tmp_path, monkeypatch, flags) -> None:
    from tests.kafka_log.dump.comparison import run

    batches = [
        oracle.build_batch(codec=codec, records=odd_records(7)[:40]) for codec in ("none", "lz4")
    ]
    path = write_log(tmp_path / "t-0", *batches)
    expected = run(path, *flags, engine="rows")
    monkeypatch.setattr(compilation, "can_compile", lambda: False)
    assert run(path, *flags, engine="columns") == expected


def test_a_line_larger_than_the_buffer_makes_it_grow(tmp_path) -> None:
    from kafka_format.batch import encode_batch
    from kafka_format.record import SimpleRecord
    from tests.kafka_log.dump.comparison import run

    records = [SimpleRecord(1, b"k", b"\x01" * 700_000), SimpleRecord(2, None, b"\xff" * 900_000)]
    path = write_log(tmp_path / "t-0", encode_batch(records))
    for flags in (("--print-data-log",), ("--print-data-log", "--format", "json")):
        columns = run(path, *flags, engine="columns")
        assert columns == run(path, *flags, engine="rows")
        assert len(columns.stdout) > 1_600_000
