"""What is large and new goes to a scratch directory or nowhere; the directory beneath is read."""

from pathlib import Path

import pytest

from kafka_log.disk.scratch_files import ScratchFiles

LOG = "00000000000000000000.log"
CLEANED = f"{LOG}.cleaned"
INDEX = "00000000000000000000.index"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    evidence, scratch, copy = (tmp_path / name for name in ("evidence", "scratch", "copy"))
    for each in (evidence, scratch, copy):
        each.mkdir()
    (evidence / LOG).write_bytes(b"before")
    return evidence, scratch, copy


def test_a_new_log_lies_in_the_scratch_directory_and_moves_into_the_copy(folders) -> None:
    evidence, scratch, copy = folders
    files = ScratchFiles(evidence, lambda: 5000, scratch=scratch)
    file = files.open(CLEANED, create=True)
    file.append(b"abc")
    file.write_at(5, b"def")
    file.truncate(7)
    assert file.read_at(0, 100) == b"abc\0\0de"
    files.write(INDEX, b"small")
    (spilled,) = scratch.iterdir()
    assert spilled.read_bytes() == b"abc\0\0de"
    files.rename(CLEANED, LOG)
    files.set_modified_ms(LOG, 1000)
    inode = spilled.stat().st_ino
    files.write_to(copy)
    assert (copy / LOG).read_bytes() == b"abc\0\0de"
    assert ((copy / LOG).stat().st_ino, (copy / LOG).stat().st_mtime) == (inode, 1)
    assert (copy / INDEX).read_bytes() == b"small"
    assert list(scratch.iterdir()) == []
    assert [(path.name, path.read_bytes()) for path in evidence.iterdir()] == [(LOG, b"before")]


def test_what_is_deleted_leaves_the_scratch_directory(folders) -> None:
    evidence, scratch, _ = folders
    files = ScratchFiles(evidence, scratch=scratch)
    files.open(CLEANED, create=True).append(b"abc")
    files.delete(CLEANED)
    assert list(scratch.iterdir()) == []


def test_without_a_scratch_directory_only_the_size_of_a_cleaned_log_is_known(folders) -> None:
    evidence, _, copy = folders
    files = ScratchFiles(evidence)
    file = files.open(CLEANED, create=True)
    file.append(b"abc")
    assert (files.size(CLEANED), file.size) == (3, 3)
    with pytest.raises(OSError, match="a dry run that keeps none"):
        file.read_at(0, 3)
    with pytest.raises(OSError, match="nothing to write"):
        files.write_to(copy)


def test_another_one_that_is_no_cleaned_log_is_kept_in_memory(folders) -> None:
    files = ScratchFiles(folders[0])
    file = files.open("00000000000000000009.log", create=True)
    file.append(b"abc")
    assert file.read_at(0, 3) == b"abc"


def test_who_reads_by_itself_is_told_where_the_bytes_lie(folders) -> None:
    evidence, scratch, _ = folders
    files = ScratchFiles(evidence, scratch=scratch)
    assert files.path_on_disk(LOG) == str(evidence / LOG)
    files.open(CLEANED, create=True).append(b"abc")
    (spilled,) = scratch.iterdir()
    assert files.path_on_disk(CLEANED) == str(spilled)
    files.open(LOG).append(b"more")
    assert files.path_on_disk(LOG) is None


@pytest.mark.parametrize("has_scratch", [True, False])
def test_a_file_that_another_process_wrote_is_taken_over(folders, has_scratch) -> None:
    evidence, scratch, copy = folders
    files = ScratchFiles(evidence, scratch=scratch if has_scratch else None)
    for name, content in ((CLEANED, b"abc"), (f"{INDEX}.cleaned", b"12345678")):
        (copy / name).write_bytes(content)
        files.adopt(name, copy / name)
        assert files.size(name) == len(content)
    assert files.read(f"{INDEX}.cleaned", limit=8) == b"12345678"
    if has_scratch:
        assert files.read(CLEANED, limit=3) == b"abc"


def test_other_new_logs_are_kept_where_cleaned_ones_are_not(folders) -> None:
    evidence, scratch, _ = folders
    files = ScratchFiles(evidence, scratch=scratch, keeps_cleaned=False)
    files.open(CLEANED, create=True).append(b"abc")
    assert (files.size(CLEANED), list(scratch.iterdir())) == (3, [])
    swapped = files.open(f"{LOG}.swap", create=True)
    swapped.append(b"def")
    assert (swapped.read_at(0, 3), len(list(scratch.iterdir()))) == (b"def", 1)
