"""`compact` on what a crash or a bad disk left: it stops and says where, or leaves that out."""

import shutil

import pytest

from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from tests.jobs.compact.compacting import (
    COMPACT,
    NOW,
    batch_positions,
    damage,
    of_kind,
    one,
    rows,
    run,
    values,
    write_log,
)
from tests.jobs.trees import tree

# ------------------------------------------------------------------------------ unclean directories


def test_a_torn_write_at_the_end_is_cut_as_by_a_restart_and_told(capsys, log_dir, tmp_path):
    (log_dir / ".kafka_cleanshutdown").unlink()
    partition = log_dir / "orders-0"
    active = max(partition.glob("*.log"))
    torn = encode_batch([SimpleRecord(0, b"k", b"v")])[:-1]
    active.write_bytes(active.read_bytes() + torn)
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 8\n")
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert code == CLEAN
    assert f"the last {len(torn)} bytes are not a batch: a restart truncates them" in err
    assert max((tmp_path / "out" / "orders-0").glob("*.log")).stat().st_size == 0


@pytest.mark.parametrize("mode", ["--dry-run", "--in-place"])
def test_a_log_that_a_restart_would_cut_in_its_middle_is_refused(capsys, log_dir, mode):
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    second = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(second, batch_positions(second)[0] + 70)
    before = tree(log_dir)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, mode)
    assert code == (FINDINGS if mode == "--dry-run" else COULD_NOT_RUN)
    assert f"{second}@0: found damage" in err
    assert "see `recover`" in err
    assert tree(log_dir) == before


@pytest.mark.parametrize("mode", [[], ["--explain-key=key-0"], ["--in-place"]])
def test_a_segment_that_a_start_splits_is_split_on_the_view_too(capsys, log_dir, mode):
    """Offsets too far apart for one index: 9 becomes 2^32, which no checksum covers."""
    far, partition = 2**32, log_dir / "orders-0"
    log = sorted(partition.glob("*.log"))[-2]
    content = bytearray(log.read_bytes())
    position = batch_positions(log)[1]
    content[position : position + 8] = far.to_bytes(8)
    log.write_bytes(content)
    for path in sorted(partition.iterdir()):
        if path.name.startswith(f"{10:020}."):
            path.rename(partition / path.name.replace(f"{10:020}", f"{far + 1:020}"))
        elif path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    for name in ("recovery-point", "replication"):
        (log_dir / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {far + 1}\n")
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, *mode)
    if "--in-place" in mode:
        assert [offset for offset, _ in values(partition)] == [7, 8, far]
    elif mode:
        assert [row["offset"] for row in of_kind(found, "record")] == [0, 3, 6, far]
    else:
        assert one(found)["new_cleaner_checkpoint"] == far + 1


def test_a_partition_directory_alone_is_loaded_as_after_a_crash(capsys, log_dir, tmp_path):
    partition = tmp_path / "elsewhere" / "orders-0"
    shutil.copytree(log_dir / "orders-0", partition)
    found = rows(capsys, partition, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert one(found)["new_cleaner_checkpoint"] == 10
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [7, 8, 9]


# --------------------------------------------------------------------------------------- damage


def test_a_damaged_batch_ends_it_and_is_named(capsys, log_dir, tmp_path):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    position = batch_positions(log)[1]
    damage(log, position + 70)
    before = tree(log_dir)
    for where in (["--dry-run"], ["--output", tmp_path / "out"], ["--in-place"]):
        code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW, *where)
        assert (code, out) == (FINDINGS if where == ["--dry-run"] else COULD_NOT_RUN, "")
        assert err.startswith(f"{log}@{position}: found stored crc 0x")
        assert "Traceback" not in err
    assert tree(log_dir) == before
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def sound(partition):
    """By the row decoder: every batch of every segment is one, with a right checksum."""
    for path in partition.glob("*.log"):
        log = LogFile(path.read_bytes())
        for batch in log.batches():
            try:
                batch.ensure_valid()
            except FormatError:
                return False
        if log.end.error is not None:
            return False
    return True


@pytest.mark.parametrize("keys", [[], ["--exact-keys"], ["--dedupe-buffer-size", "60"]])
def test_a_bit_that_a_checksum_covers_is_noticed_whatever_it_does_to_a_round(
    capsys, log_dir, tmp_path, keys
):
    """A round that is led astray, to fewer segments or to other offsets, changes nothing of that.

    The map of 60 bytes has room for one key: the batch is behind what the first round comes to.
    """
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]  # the last that is cleaned
    content, position = log.read_bytes(), batch_positions(log)[1]
    noticed = 0
    for at in range(position, len(content)):
        hurt = bytearray(content)
        hurt[at] ^= 1 << at % 8
        log.write_bytes(hurt)
        options = ["--output", tmp_path / "out", *keys]
        code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW, *options)
        assert "Traceback" not in err
        if not sound(log_dir / "orders-0"):
            noticed += 1
            assert (code, out) == (COULD_NOT_RUN, ""), (at, err)
            assert err.startswith(f"{log}@{position}: found "), (at, err)
            assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    # The checksum covers neither the base offset (8 bytes) nor the leader epoch (4) nor the magic.
    assert noticed == len(content) - position - 13


def test_damage_behind_what_is_cleaned_is_nobodys_business(capsys, log_dir, tmp_path):
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]
    damage(log, 70)
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert (tmp_path / "out" / "orders-0" / log.name).read_bytes() == log.read_bytes()


def test_skip_damaged_leaves_the_batch_out_and_reports_its_offsets(capsys, log_dir, tmp_path):
    """Offset 7 is the last of its key: 4 takes its place."""
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]  # 6 and 7
    position = batch_positions(log)[1]
    damage(log, position + 70)
    before = tree(log_dir)
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out"]
    found = rows(capsys, *options, expect=FINDINGS)
    finding = one(found, "finding")
    assert (finding["id"], finding["file"]) == ("LOG001", str(log))
    assert (finding["position"], finding["size_in_bytes"]) == (position, 80)
    assert (finding["first_offset"], finding["next_offset"]) == (7, None)
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [4, 8, 9]
    assert one(found)["findings"] == 1
    assert tree(log_dir) == before
    code, _, err = run(capsys, *options[:-2])
    assert code == FINDINGS
    assert f"{log}@{position}: LOG001: found stored crc" in err
    assert "skipped 80 bytes, from offset 7 up to the end of the file" in err


TOLD = (
    ["--explain={out}"],
    ["--explain-key=key-1"],
    ["--what-if=delete.retention.ms=0", "--what-if=delete.retention.ms=1"],
)


@pytest.mark.parametrize("reported", TOLD)
def test_who_only_tells_stops_at_damage_too_and_says_nothing_else(
    capsys, log_dir, tmp_path, reported
):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(log, 70)
    options = [each.format(out=tmp_path / "out") for each in reported]
    code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW, *options)
    assert (code, out) == (COULD_NOT_RUN if reported == TOLD[0] else FINDINGS, "")
    damaged, *more = err.splitlines()
    assert damaged.startswith(f"{log}@0: found stored crc 0x")
    unwritten = [f"{tmp_path / 'out'}: not written, because it would be incomplete"]
    assert more == (unwritten if reported == TOLD[0] else [])
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("reported", TOLD)
def test_who_only_tells_leaves_damage_out_where_asked_and_reports_it_once(
    capsys, log_dir, tmp_path, reported
):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(log, 70)
    for style in ("json", "text"):
        out = tmp_path / style
        options = [each.format(out=out) for each in reported]
        options += ["--skip-damaged", "--quiet", "--format", style]
        code, stdout, err = run(capsys, log_dir, COMPACT, "--now", NOW, *options)
        assert code == FINDINGS
        told_of = err if style == "text" else stdout
        assert told_of.count("LOG001") == 1
        assert (style == "text") == err.startswith(f"{log}@0: LOG001: found stored crc 0x")
        assert out.exists() == (reported == TOLD[0])


def test_skip_damaged_looks_at_what_a_start_would_swap_in(capsys, log_dir, tmp_path):
    """A `.swap` takes the place of its log: damage of the one counts, of the other does not."""
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]  # 6 and 7
    swap = log.with_name(f"{log.name}.swap")
    shutil.copy(log, swap)
    damage(log, 70)
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged"]
    rows(capsys, *options, "--output", tmp_path / "sound")
    assert [offset for offset, _ in values(tmp_path / "sound" / "orders-0")] == [7, 8, 9]
    damage(log, 70)  # sound again
    damage(swap, batch_positions(swap)[1] + 70)
    found = rows(capsys, *options, "--output", tmp_path / "less", expect=FINDINGS)
    assert one(found, "finding")["first_offset"] == 7
    assert [offset for offset, _ in values(tmp_path / "less" / "orders-0")] == [4, 8, 9]


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_torn_at_the_end_is_damage_after_a_stop_in_order(
    capsys, log_dir, tmp_path, is_clean
):
    """After a crash it is what a start cuts off by itself."""
    if not is_clean:
        (log_dir / ".kafka_cleanshutdown").unlink()
    active = max((log_dir / "orders-0").glob("*.log"))
    active.write_bytes(bytes(7) + b"torn")
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out"]
    found = rows(capsys, *options, expect=FINDINGS if is_clean else CLEAN)
    partition = one(found)
    assert (partition["findings"], partition["cut_bytes"]) == ((1, 0) if is_clean else (0, 11))
    assert (tmp_path / "out" / "orders-0" / active.name).read_bytes() == b""


def test_bytes_that_cannot_be_a_batch_are_left_out_up_to_the_next_sound_one(capsys, tmp_path):
    log_dir = write_log(tmp_path / "data", 10, roll_each=5)
    log = min((log_dir / "orders-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    first, second = batch_positions(log)[1:3]
    content[first + 8 : first + 12] = b"\x7f\xff\xff\xff"  # its length, beyond all files
    log.write_bytes(content)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW)
    assert code == FINDINGS
    assert err.startswith(f"{log}@{first}: ")
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out",
        expect=FINDINGS,
    )  # fmt: skip
    finding = one(found, "finding")
    assert (finding["position"], finding["size_in_bytes"]) == (first, second - first)
    assert (finding["first_offset"], finding["next_offset"]) == (1, 2)
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [7, 8, 9]


def test_records_that_do_not_decode_under_a_right_checksum_are_named_and_left_out(capsys, tmp_path):
    log_dir = write_log(tmp_path / "data", 4)
    log = min((log_dir / "orders-0").glob("*.log"))
    raw = bytearray(log.read_bytes())
    batch = next(iter(LogFile(bytes(raw)).batches()))
    payload = b"\x01" + bytes(batch.payload)[1:]  # a record with a negative length
    forged = assemble(BatchHeader.unpack(batch.raw), payload)
    assert len(forged) == len(batch.raw)
    raw[: len(forged)] = forged
    log.write_bytes(raw)
    before = tree(log_dir)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert code == COULD_NOT_RUN
    assert err.startswith(f"{log}@")
    assert tree(log_dir) == before
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out",
        expect=FINDINGS,
    )  # fmt: skip
    assert one(found, "finding")["id"] == "LOG003"


def test_skip_damaged_and_in_place_exclude_each_other(capsys, log_dir):
    code, _, err = run(capsys, log_dir, COMPACT, "--skip-damaged", "--in-place")
    assert code == USAGE
    assert "use it with --output" in err
