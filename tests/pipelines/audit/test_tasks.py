"""Findings travel in blocks, in order."""

import errno

from kafka_format.access import ChangedError, LinkError
from kafka_format.errors import CorruptError, Location, UnfitFileError
from kafka_log.checks.finding import About, Finding
from pipelines.audit.tasks import FindingBlock, guarded, in_blocks, read_failure

ABOUT = About("/data/t-0/0.log", "t", 0)


def finding(number):
    return Finding.of("LOG001", ABOUT, str(number), "x", offset=number, entry=f"entry {number}")


def test_blocks_keep_order_and_everything_of_a_finding():
    items = [*map(finding, range(2500)), "summary", finding(9)]
    blocks = list(in_blocks(iter(items)))
    assert [type(each).__name__ for each in blocks] == [
        *["FindingBlock"] * 3,
        "str",
        "FindingBlock",
    ]
    back: list = []
    for each in blocks:
        back += each.findings() if isinstance(each, FindingBlock) else [each]
    assert back == items


def test_a_million_findings_are_small():
    block = FindingBlock.of([finding(number) for number in range(1000)])
    assert len(block.data) < 20_000


def test_what_cannot_be_read_is_a_finding_after_what_was_found_before():
    def items():
        yield finding(1)
        raise PermissionError(errno.EACCES, "Permission denied", ABOUT.path)

    assert [each.id for each in guarded(items(), ABOUT)] == ["LOG001", "DIR001"]


def test_each_way_to_fail_has_its_rule(tmp_path):
    path = ABOUT.path
    for error, rule in (
        (PermissionError(errno.EACCES, "Permission denied", path), "DIR001"),
        (OSError(errno.EMFILE, "Too many open files", path), "DIR001"),
        (ChangedError(path, "it vanished"), "DIR008"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", path), "DIR008"),
        (LinkError(path, "/elsewhere"), "DIR007"),
        (UnfitFileError(Location(path, 0), "a named pipe", "a regular file"), "DIR005"),
        (CorruptError(Location(path, 0), "2 bytes", "less"), "DIR006"),
    ):
        found = read_failure(error, ABOUT)
        assert (found.id, found.path, found.topic) == (rule, path, "t")
