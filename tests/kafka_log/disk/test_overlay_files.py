"""An overlay: changes that are seen, and a directory that is left alone."""

import os
import random
import stat
from pathlib import Path

import pytest

from kafka_log.disk.overlay_files import Change, OverlayFiles
from tests.kafka_log.disk.random_changes import Applied, Model, content, draw_changes, fill


@pytest.fixture
def overlay(tmp_path: Path) -> OverlayFiles:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"b")
    return OverlayFiles(tmp_path, lambda: 1_700_000_000_000)


def test_an_overlay_says_what_became_of_each_file(overlay: OverlayFiles) -> None:
    overlay.open("a").truncate(4)
    overlay.rename("b", "c")
    overlay.write("d", b"dd")
    assert overlay.changes() == [
        Change("a", "truncated", 10, 4),
        Change("b", "renamed", 1, 1, "c"),
        Change("d", "created", None, 2),
    ]


def test_a_file_that_became_what_it_was_is_no_change(overlay: OverlayFiles) -> None:
    overlay.rename("b", "c")
    overlay.rename("c", "b")
    overlay.open("a").truncate(10)
    file = overlay.open("a")
    file.append(b"x")
    file.truncate(10)
    assert overlay.changes() == []


def test_extended_rewritten_and_deleted_files_are_told_apart(overlay: OverlayFiles) -> None:
    overlay.open("a").append(b"xy")
    overlay.delete("b")
    assert overlay.changes() == [Change("a", "extended", 10, 12), Change("b", "deleted", 1, None)]
    overlay.open("a").write_at(0, b"z")
    overlay.write("b", b"anew")
    assert overlay.changes() == [Change("a", "rewritten", 10, 12), Change("b", "rewritten", 1, 4)]


def test_a_changed_file_has_the_time_of_its_change(overlay: OverlayFiles, tmp_path: Path) -> None:
    before = (tmp_path / "b").stat().st_mtime_ns // 1_000_000
    overlay.open("a").append(b"x")
    assert overlay.modified_ms("a") == 1_700_000_000_000
    assert overlay.modified_ms("b") == before


def test_a_file_that_became_shorter_under_an_overlay_is_an_error(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"0")
    with pytest.raises(OSError, match="changed while it was read: it shrank from 10 to 1 bytes"):
        content(overlay, "a")


def test_a_file_that_grew_under_an_overlay_is_seen_as_it_was(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"0123456789 and more")
    assert content(overlay, "a") == b"0123456789"


def test_a_copy_has_what_was_seen_of_a_file_that_grew(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    (before / "a").write_bytes(b"0123456789")
    overlay = OverlayFiles(before)
    with (before / "a").open("ab") as file:
        file.write(b"more")
    overlay.write_to(after)
    assert (after / "a").read_bytes() == b"0123456789"


def test_a_copy_of_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    (before / "a").write_bytes(b"0123456789")
    overlay = OverlayFiles(before)
    (before / "a").write_bytes(b"0123")
    with pytest.raises(OSError, match="changed while it was read: it shrank from 10 to 4 bytes"):
        overlay.write_to(after)


def test_holes_of_a_file_stay_holes_in_a_copy(tmp_path: Path) -> None:
    """Indexes of a broker that crashed are ten megabytes of nothing, each."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    size = 64 * 2**20
    with (before / "a").open("wb") as file:
        file.write(b"begin")
        file.seek(32 * 2**20)
        file.write(b"middle")
        file.truncate(size)
    (before / "hole").touch()
    os.truncate(before / "hole", size)
    OverlayFiles(before).write_to(after)
    assert (after / "a").read_bytes() == (before / "a").read_bytes()
    assert ((after / "hole").stat().st_size, (after / "hole").stat().st_blocks) == (size, 0)
    assert (after / "a").stat().st_blocks * 512 <= 2**20


def test_an_overlay_needs_no_right_to_write(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "a").chmod(stat.S_IRUSR)
    overlay = OverlayFiles(tmp_path)
    overlay.open("a").write_at(0, b"x")
    assert content(overlay, "a") == b"x123456789"
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_copy_overwrites_nothing(overlay: OverlayFiles, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "a").write_bytes(b"mine")
    overlay.open("a").truncate(4)
    with pytest.raises(FileExistsError):
        overlay.write_to(target)
    assert (target / "a").read_bytes() == b"mine"


def test_a_copy_overwrites_nothing_that_it_need_not_change(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "a").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        overlay.write_to(target)
    assert (target / "a").read_bytes() == b"mine"


def test_the_directory_under_an_overlay_is_left_alone_and_its_copy_has_the_changes(
    tmp_path: Path,
) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        beneath, copy = tmp_path / f"beneath-{seed}", tmp_path / f"copy-{seed}"
        beneath.mkdir()
        copy.mkdir()
        contents = fill(rng, beneath)
        model, files = Model(contents), OverlayFiles(beneath, lambda: 1_700_000_000_000)
        for do, arguments in draw_changes(rng, model):
            getattr(model, do)(*arguments)
            getattr(Applied(files), do)(*arguments)
        files.write_to(copy)
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == model.contents
        assert {path.name: path.read_bytes() for path in beneath.iterdir()} == contents
        assert {path.stat().st_mtime for path in beneath.iterdir()} <= {1_600_000_000}
        _check_changes(files, contents, model)


def _check_changes(files: OverlayFiles, before: dict[str, bytes], after: Model) -> None:
    """A file that no change mentions is what it was; sizes are true."""
    changes = files.changes()
    mentioned = {change.name for change in changes} | {change.renamed_to for change in changes}
    for name in before.keys() | after.contents.keys():
        if name not in mentioned:
            assert after.contents.get(name) == before.get(name)
    for change in changes:
        is_new = change.action == "created"  # or its namesake has another name now
        assert change.size_before == (None if is_new else len(before[change.name]))
        now = change.renamed_to or change.name
        if change.action == "deleted":
            assert change.size_after is None
        else:
            assert change.size_after == len(after.contents[now])
