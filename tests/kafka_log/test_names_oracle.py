"""Names against Apache Kafka's own classes: a small Java program reads thousands of them."""

import random
import subprocess
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_format import java_text
from kafka_log.names import (
    DirectoryKind,
    FileKind,
    FileState,
    is_valid_topic,
    parse_directory_name,
    parse_file_name,
    partition_directory_name,
)
from tests.kafka_log import test_names
from tests.oracle import jars

HEX = test_names.HEX
PIECES = (
    "0 7 12 - - - . . _ a orders + \u0667 \u00a0 -delete -future -stray "
    f".{HEX}-delete .{HEX}-stray .{HEX}-future .log .index .checkpoint .checkpoint.part "
    ".checkpoint.deleted .deleted 00000000000000000018 -0000000001 2147483647 2147483648"
).split(" ")
PIECES.append(" ")
OFFSETS = ["5", "00000000000000000042", "+5", "-5", "\u0667", "5.x", "x", "5 ", "", "0x5", "1_0"]
OFFSETS += ["0" * 30 + "1", "9223372036854775807", "9223372036854775808", "-9223372036854775808"]


class Answer(NamedTuple):
    directory: str
    offset: str
    snapshot: str
    valid_topic: str
    live_name: str
    delete_name: str
    stray_name: str
    future_name: str


@pytest.fixture(scope="module")
def answers(oracle) -> dict[str, Answer]:  # the oracle: where it is skipped, so is this
    rng = random.Random(20260101)
    names = {"".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(5000)}
    names |= {"t" * length for length in (200, 212, 213, 214, 248, 249, 250)}
    names |= {f"{'t' * 212}-12.{HEX}-delete", "remote-log-index-cache", "...", "a.b-delete-0"}
    names |= {offset + ending for offset in OFFSETS for ending in (".log", ".index", "")}
    names |= {
        f"{offset}{dash}{epoch}.checkpoint{suffix}"
        for offset in ("0" * 20, "0" * 18 + "+1", "0" * 19, "9223372036854775807")
        for dash in "-_"
        for epoch in ("0000000001", "2147483647", "2147483648", "1", "0000000001-123", "x" * 10)
        for suffix in ("", ".part", ".deleted", ".tmp")
    }
    # Kafka has no file without a name, or of the parent's; the sample has none by its pieces.
    names -= {"", ".", ".."}
    ordered = sorted(names)
    done = subprocess.run(
        [
            jars.java_program("java"),
            "-cp",
            jars.class_path(jars.CURRENT),
            "-Dfile.encoding=UTF-8",
            "-Dsun.jnu.encoding=UTF-8",
            str(Path(__file__).parent / "KafkaNames.java"),
        ],
        input="\n".join(ordered),
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    return {name: Answer(*line.split("\t")) for name, line in zip(ordered, lines, strict=True)}


def test_directories_are_taken_apart_alike(answers):
    kinds = set()
    for name, answer in answers.items():
        parsed = parse_directory_name(name)
        kinds.add(parsed.kind)
        if parsed.kind in (DirectoryKind.UNKNOWN, DirectoryKind.REMOTE_LOG_INDEX_CACHE):
            assert answer.directory == "refused", name
        else:
            assert answer.directory == f"{parsed.topic} {parsed.partition}", name
    assert kinds == set(DirectoryKind)


def test_offsets_of_files_are_read_alike(answers):
    seen = 0
    for name, answer in answers.items():
        parsed = parse_file_name(name)
        if parsed.kind in (FileKind.LOG, FileKind.OFFSET_INDEX):
            assert answer.offset == str(parsed.offset), name
            seen += 1
        elif name.endswith((".log", ".index")):
            assert answer.offset == "refused", name
    assert seen > 40


def test_metadata_snapshots_are_read_alike(answers):
    seen = 0
    suffixes = {FileState.PARTIAL: " partial", FileState.DELETED: " deleted", FileState.LIVE: ""}
    for name, answer in answers.items():
        parsed = parse_file_name(name)
        if parsed.kind is FileKind.METADATA_SNAPSHOT:
            expected = f"{parsed.offset} {parsed.epoch}{suffixes[parsed.state]}"
            assert answer.snapshot == expected, name
            seen += 1
        else:
            assert answer.snapshot in ("refused", "no snapshot"), name
    assert seen > 10


def test_topics_are_judged_alike(answers):
    for name, answer in answers.items():
        assert answer.valid_topic == str(is_valid_topic(name)).lower(), name


def test_directories_are_named_alike(answers):
    for topic, answer in answers.items():
        if not is_valid_topic(topic):
            continue
        assert str(partition_directory_name(topic, 12)) == answer.live_name
        for kind, name in [
            (DirectoryKind.DELETE, answer.delete_name),
            (DirectoryKind.STRAY, answer.stray_name),
            (DirectoryKind.FUTURE, answer.future_name),
        ]:
            unique_id = uuid.UUID(name.removesuffix(kind.value)[-32:])
            ours = partition_directory_name(topic, 12, kind, unique_id=unique_id)
            assert str(ours) == name
            assert parse_directory_name(name) == ours


def test_the_sample_has_digits_that_only_java_reads(answers):
    assert any("\u0667" in name and answer.directory != "refused"
               for name, answer in answers.items())  # fmt: skip
    assert java_text.parse_int("\u0667") == 7
