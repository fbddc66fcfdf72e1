"""Analysis and validation of appends, against UnifiedLog's and LogValidator's own."""

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_format.compression import Codec
from kafka_format.log_file import iter_batches
from kafka_log.appends.validation import (
    LogAppendInfo,
    analyze_and_validate_records,
    trim_invalid_bytes,
    validate_messages_and_assign_offsets,
    validate_produce_records,
)
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    RecordValidationError,
    UnknownServerError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from tests.kafka_log.append_cases import (
    OVERLONG,
    AppendCase,
    corner_cases,
    draw_case,
    draw_fetch,
    draw_large_case,
)
from tests.oracle.client import Oracle
from tests.show import seen_by

KAFKA_ERRORS: dict[str, type[LogError]] = {
    "CorruptRecordException": CorruptMessageError,
    "InvalidRecordException": InvalidRecordError,
    "InvalidTimestampException": InvalidTimestampError,
    "OffsetsOutOfOrderException": OffsetsOutOfOrderError,
    "RecordTooLargeException": RecordTooLargeError,
    "UnsupportedCompressionTypeException": UnsupportedCompressionTypeError,
    "UnsupportedForMessageFormatException": UnsupportedForMessageFormatError,
}


def log_config(settings: dict[str, Any]) -> LogConfig:
    fields = {name.replace(".", "_"): value for name, value in settings.items()}
    if "cleanup_policy" in fields:
        fields["cleanup_policy"] = frozenset(fields["cleanup_policy"].split(","))
    return LogConfig(**fields)


def told_error(error: dict[str, Any]) -> dict[str, Any]:
    """Kafka's exception as ours: the class, and the places of the records."""
    name = error["class"].rpartition(".")[2]
    records = [each["batch_index"] for each in error.get("record_errors", ())]
    return {"error": KAFKA_ERRORS.get(name, UnknownServerError).__name__, "records": records}


def outcome(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except LogError as error:
        records = error.record_errors if isinstance(error, RecordValidationError) else ()
        places = [each.batch_index for each in records]
        return {"error": type(error).__name__, "records": places}


def ours(case: AppendCase, *, compiled: bool | None = None) -> dict[str, Any]:
    """What the oracle answers, from our own validation."""
    answer = {"produce": outcome(lambda: _produce(case))}
    config = log_config(case.config)
    analyzed: list[LogAppendInfo] = []

    def analyze() -> dict[str, Any]:
        info = analyze_and_validate_records(
            case.data, case.options, config, log_start_offset=0, compiled=compiled
        )
        analyzed.append(info)
        return {
            "first_offset": info.first_offset,
            "last_offset": info.last_offset,
            "last_leader_epoch": info.last_leader_epoch,
            "max_timestamp": info.max_timestamp,
            "log_append_time": info.log_append_time,
            "log_start_offset": info.log_start_offset,
            "source_compression": str(info.source_compression),
            "valid_bytes": info.valid_bytes,
            "first_or_last_offset_of_first_batch": info.first_or_last_offset_of_first_batch,
        }

    answer["analysis"] = outcome(analyze)
    if analyzed and analyzed[0].valid_bytes > 0:
        answer["validation"] = outcome(lambda: _validate(case, analyzed[0], config, compiled))
    return answer


def _produce(case: AppendCase) -> dict[str, Any]:
    validate_produce_records(case.data, version=case.produce_version)
    return {}


def _validate(
    case: AppendCase, info: LogAppendInfo, config: LogConfig, compiled: bool | None
) -> dict[str, Any]:
    result = validate_messages_and_assign_offsets(
        trim_invalid_bytes(case.data, info),
        case.options,
        config,
        offset=case.offset,
        now_ms=case.now,
        source_compression=info.source_compression,
        compiled=compiled,
    )
    stats = result.record_validation_stats
    return {
        "bytes": result.validated_records,
        "next_offset": result.next_offset,
        "log_append_time_ms": result.log_append_time_ms,
        "max_timestamp_ms": result.max_timestamp_ms,
        "message_size_maybe_changed": result.message_size_maybe_changed,
        "temporary_memory_bytes": stats.temporary_memory_bytes,
        "num_records_converted": stats.num_records_converted,
    }


def kafkas(answer: dict[str, Any]) -> dict[str, Any]:
    reported = {}
    for part, found in answer.items():
        if "error" in found:
            reported[part] = told_error(found["error"])
        else:
            reported[part] = dict(found)
            if "bytes" in found:
                reported[part]["bytes"] = base64.b64decode(found["bytes"])
    return reported


def assert_same(found: dict[str, Any], expected: dict[str, Any], note: object) -> None:
    found, expected = comparable(found, expected)
    assert found == expected, note


def comparable(
    found: dict[str, Any], expected: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Snappy's matches are its library's own choice: such batches are compared unpacked."""
    if found != expected and _has_snappy(found) and _has_snappy(expected):
        return _unpacked(found), _unpacked(expected)
    return found, expected


def _has_snappy(answer: dict[str, Any]) -> bool:
    data = answer.get("validation", {}).get("bytes", b"")
    return any(batch.header.codec is Codec.SNAPPY for batch in iter_batches(data))


def _unpacked(answer: dict[str, Any]) -> dict[str, Any]:
    batches = [
        (batch.header._replace(**_sizes(batch.magic)), batch.records())
        for batch in iter_batches(answer["validation"]["bytes"])
    ]
    return answer | {"validation": answer["validation"] | {"bytes": batches}}


def _sizes(magic: int) -> dict[str, int]:
    return {"crc": 0, "batch_length" if magic == 2 else "size": 0}


def ask(oracle: Oracle, path: Path, cases: Sequence[AppendCase]) -> list[dict[str, Any]]:
    return oracle.call(
        "validate_appends", path=path, cases=[case.as_request() for case in cases], timeout=120
    )


DRAW: dict[str, Callable[[int], AppendCase]] = {
    "validation": draw_case,
    "validation-large": draw_large_case,
    "fetch": draw_fetch,
}


def compare(
    oracle: Oracle,
    path: Path,
    suite: str,
    seeds: Sequence[int],
    *,
    ways: Sequence[bool | None] = (None,),
) -> None:
    """`ways`: by rows (False), by kernels (True), or as the size of each batch says."""
    cases = [DRAW[suite](seed) for seed in seeds]
    for seed, case, answer in zip(seeds, cases, ask(oracle, path, cases), strict=True):
        if any(_ran_out_of_memory(part) for part in answer.values()):
            continue
        for compiled in ways:
            with seen_by(suite, seed):
                assert_same(ours(case, compiled=compiled), kafkas(answer), case)


def _ran_out_of_memory(part: dict[str, Any]) -> bool:
    """Kafka believes a record that says it has two gigabytes; its heap then decides."""
    return part.get("error", {}).get("class") == "java.lang.OutOfMemoryError"


@pytest.mark.parametrize("block", range(6))
def test_seeded_appends_get_kafkas_answers(oracle: Oracle, tmp_path: Path, block: int) -> None:
    seeds = range(250 * block, 250 * (block + 1))
    compare(oracle, tmp_path / "orders-0", "validation", seeds)


def test_corners_get_kafkas_answers(oracle: Oracle, tmp_path: Path) -> None:
    cases = corner_cases()
    for case, answer in zip(cases, ask(oracle, tmp_path / "orders-0", cases), strict=True):
        for compiled in (False, True):
            found, expected = ours(case, compiled=compiled), kafkas(answer)
            if OVERLONG in case.note:  # Kafka counts it as short as it could be
                found["validation"].pop("temporary_memory_bytes")
                expected["validation"].pop("temporary_memory_bytes")
            assert_same(found, expected, case)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(60))
def test_many_more_appends_get_kafkas_answers(oracle: Oracle, tmp_path: Path, block: int) -> None:
    seeds = range(10_000 + 1000 * block, 10_000 + 1000 * (block + 1))
    compare(oracle, tmp_path / "orders-0", "validation", seeds)


def test_large_batches_get_kafkas_answers_by_rows_and_by_kernels(
    oracle: Oracle, tmp_path: Path
) -> None:
    compare(oracle, tmp_path / "orders-0", "validation-large", range(30), ways=(False, True))


def test_fetched_batches_get_kafkas_answers_one_by_one_and_all_at_once(
    oracle: Oracle, tmp_path: Path
) -> None:
    compare(oracle, tmp_path / "orders-0", "fetch", range(150), ways=(False, True, None))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_more_large_batches_get_kafkas_answers(
    oracle: Oracle, tmp_path: Path, block: int
) -> None:
    seeds = range(1000 + 50 * block, 1000 + 50 * (block + 1))
    compare(oracle, tmp_path / "orders-0", "validation-large", seeds, ways=(False, True))


def test_rows_and_kernels_say_the_same() -> None:
    for seed in range(2000, 2600):
        case = draw_case(seed)
        assert ours(case, compiled=True) == ours(case, compiled=False), case
