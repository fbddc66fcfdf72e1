"""The oracle itself: it is deterministic, it survives errors, one JVM answers a whole run."""

from pathlib import Path

import pytest

from tests.oracle.client import (
    Oracle,
    OracleDiedError,
    OracleError,
    OracleTimeoutError,
    b64,
    record,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_one_jvm_answers_every_request_of_a_run(oracle: Oracle) -> None:
    pid = oracle.pid
    for codec in CODECS:
        assert oracle.build_batch(codec=codec, records=[record(1, b"k", b"v")])
    assert oracle.pid == pid


def test_an_exception_of_kafkas_is_an_oracle_error_and_the_jvm_lives_on(oracle: Oracle) -> None:
    pid = oracle.pid
    with pytest.raises(OracleError, match="Transactional records are not supported for magic 1"):
        oracle.build_batch(magic=1, transactional=True, records=[record(1, b"k", b"v")])
    with pytest.raises(OracleError, match="unknown request nonsense") as caught:
        oracle.call("nonsense")
    assert caught.value.error_class == "java.lang.IllegalArgumentException"
    assert "at oracle.Main" in caught.value.trace
    assert oracle.pid == pid


def test_an_exit_of_a_tool_does_not_end_the_jvm(oracle: Oracle) -> None:
    pid = oracle.pid
    helped = oracle.dump("--help", check=False)
    assert helped.exit == 1
    assert "--print-data-log" in helped.stdout + helped.stderr
    assert oracle.pid == pid


def test_a_request_out_of_time_ends_its_jvm_and_the_next_has_a_new_one(
    oracle: Oracle,  # only to skip where there are no jars
) -> None:
    with Oracle(timeout=20) as own:
        first = own.pid
        with pytest.raises(OracleTimeoutError, match=r"sleep: timeout: no answer in 0\.2 s"):
            own.call("sleep", seconds=60, timeout=0.2)
        assert own.call("sleep", seconds=0) == {"slept": 0}
        assert own.pid not in {None, first}


def test_a_jvm_that_dies_says_why(oracle: Oracle) -> None:
    with Oracle(flags=["-XX:+NoSuchFlag"]) as own, pytest.raises(OracleDiedError, match="NoSuchF"):
        own.call("sleep", seconds=0)


def test_reading_damaged_bytes_tells_the_error_where_it_is(oracle: Oracle) -> None:
    good = oracle.build_batch(records=[record(1, b"k", b"v")])
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    found = oracle.read_batches(good + flipped)
    assert [batch["is_valid"] for batch in found["batches"]] == [True, False]
    assert found["error"] is None
    cut = oracle.read_batches(good + good[:16] + b"\x07" + good[17:])
    assert len(cut["batches"]) == 1
    assert cut["error"]["class"] == "org.apache.kafka.common.errors.CorruptRecordException"


def test_both_readers_agree_and_keep_null_from_empty(oracle: Oracle, tmp_path: Path) -> None:
    built = oracle.build_batch(
        base_offset=10,
        records=[
            record(5, None, b"", [("h", None), ("", b"")]),
            record(7, b"", None, offset=14),
        ],
    )
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(built)
    found = oracle.read_batches(built)
    assert oracle.read_batches(path) == found
    first, second = found["batches"][0]["records"]
    assert (first["key"], first["value"], first["headers"]) == (None, "", [["h", None], ["", ""]])
    assert (second["key"], second["value"], second["offset"]) == ("", None, 14)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS[:4])
def test_the_releases_build_the_same_bytes(
    oracle: Oracle, oracle_3_9: Oracle, magic: int, codec: str
) -> None:
    batch = {"magic": magic, "codec": codec, "base_offset": 3}
    batch["records"] = [record(10 + i, b"key", b"value" * i) for i in range(20)]
    assert oracle.build_batch(batch) == oracle_3_9.build_batch(batch)


def test_control_records_come_back_decoded(oracle: Oracle) -> None:
    voters = {"version": 0, "voters": []}
    batch = oracle.build_batch(control={"type": "KRAFT_VOTERS", "message": voters}, timestamp=4)
    (record_,) = oracle.read_batches(batch)["batches"][0]["records"]
    assert record_["control"] == {"type_id": 6, "type": "KRAFT_VOTERS", "message": voters}
    marker = oracle.build_batch(
        control={"type": "ABORT", "coordinator_epoch": 9},
        transactional=True,
        producer_id=1,
        producer_epoch=0,
    )
    (record_,) = oracle.read_batches(marker)["batches"][0]["records"]
    assert record_["value"] == b64(b"\0\0\0\0\0\x09")
    assert record_["control"] == {"type_id": 0, "type": "ABORT", "coordinator_epoch": 9}
