"""Tables exported, and exported again from a directory that has grown."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pipelines.export.export as exporting
from jobs import cli, export, options
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.disk.output import OutputError
from pipelines.engine.output_place import ensure_outside, ensure_writable
from pipelines.export.export import DeltaUnavailableError, ensure_delta, export_schema, is_known
from pipelines.manifest import Changes, InputFile, changes, with_digests
from pipelines.source.schema import COLUMNS, WHAT_IF, column_names
from pipelines.source.storage import Storage
from tests import golden
from tests.kafka_log.disk.test_output import small_disk
from tests.oracle.test_availability import NO_NETWORK
from tests.pipelines.readers import read

ROOT = Path(__file__).parents[3]
PACK = "unclean-4.3.1"
FIRST, SECOND = "1794830400005", "1794830460000"
SECOND_SEGMENT = "00000000000000000005"


@pytest.fixture
def data(tmp_path) -> Path:
    """The files of a log dir, and of its partition `transactions-0` what is before offset 5."""
    (log_dir,) = golden.log_dirs(golden.shared(PACK))
    copy = tmp_path / "data"
    copy.mkdir()
    for path in log_dir.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
    shutil.copytree(
        log_dir / "transactions-0",
        copy / "transactions-0",
        ignore=shutil.ignore_patterns(f"{SECOND_SEGMENT}.*"),
    )
    return copy


def grow(data: Path) -> None:
    (log_dir,) = golden.log_dirs(golden.shared(PACK))
    for path in (log_dir / "transactions-0").glob(f"{SECOND_SEGMENT}.*"):
        shutil.copy2(path, data / "transactions-0")


def received() -> list[int]:
    """Offsets that a real consumer received of that partition."""
    return sorted(
        row["offset"]
        for row in golden.expected(PACK)
        if row["topic"] == "transactions"
        and row["partition"] == 0
        and row["isolation"] == "read_uncommitted"
        and "offset" in row
    )


def run(capsys, *arguments):
    code = export.main([str(each) for each in arguments])
    captured = capsys.readouterr()
    added = {
        line.split()[0]: int(line.split()[1]) for line in captured.out.splitlines()[1:] if line
    }
    return code, added, captured.err


def export_twice(capsys, data, lake, *arguments):
    """What each of two runs added, by table."""
    where = [data, "--output", lake, "--table", "records", *arguments]
    code, first, err = run(capsys, *where, "--now", FIRST)
    assert code == CLEAN, err
    grow(data)
    code, second, err = run(capsys, *where, "--now", SECOND)
    assert code == CLEAN, err
    return first, second


def test_a_second_export_to_delta_adds_only_what_is_new(delta_spark, capsys, data, tmp_path):
    from delta.tables import DeltaTable

    first, second = export_twice(capsys, data, tmp_path / "lake")
    before = [offset for offset in received() if offset < 5]
    assert first == {"records": len(before)}
    assert second == {"records": len(received()) - len(before)}

    location = str(tmp_path / "lake" / "records")
    found = delta_spark.read.format("delta").load(location)
    rows = found.select("offset", "exported_at").collect()
    assert sorted(row["offset"] for row in rows) == received()
    assert {row["offset"] < 5 for row in rows if row["exported_at"].minute == 0} == {True}
    assert {row["offset"] < 5 for row in rows if row["exported_at"].minute == 1} == {False}
    assert found.columns[:8] == [name for name, _, _ in COLUMNS["records"]][:8]
    assert found.schema["value"].metadata["comment"] == "null is a tombstone, empty is not"
    (detail,) = DeltaTable.forPath(delta_spark, location).detail().collect()
    assert detail["description"] == "one row per record, as in Spark's Kafka source"
    assert detail["partitionColumns"] == ["topic"]


def test_a_second_export_to_parquet_adds_only_what_is_new(spark, capsys, data, tmp_path):
    lake = tmp_path / "lake"
    more = ("--format", "parquet", "--table", "log_dirs")  # whose rows have a map
    first, second = export_twice(capsys, data, lake, *more)
    before = [offset for offset in received() if offset < 5]
    assert first == {"records": len(before), "log_dirs": 1}
    assert second == {"records": len(received()) - len(before), "log_dirs": 1}  # it has grown
    rows = spark.read.parquet(str(lake / "records")).select("offset", "topic").collect()
    assert sorted(rows) == [(offset, "transactions") for offset in received()]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_replicas_of_a_partition_give_each_record_once(request, capsys, data, tmp_path, form):
    request.getfixturevalue("delta_spark" if form == "delta" else "spark")
    brokers = tmp_path / "brokers"
    shutil.copytree(data, brokers / "behind")
    grow(data)
    shutil.copytree(data, brokers / "leader")
    shutil.copytree(data, brokers / "follower")
    for number, path in enumerate(sorted(brokers.glob("*/meta.properties"))):
        path.write_text(path.read_text().replace("node.id=1", f"node.id={number + 5}"))
    where = [brokers, "--output", tmp_path / "lake", "--format", form]
    where += ["--table", "records", "--table", "leader_epochs"]
    code, added, err = run(capsys, *where, "--now", FIRST)
    assert (code, added) == (CLEAN, {"records": len(received()), "leader_epochs": 3}), err
    code, added, err = run(capsys, *where, "--now", SECOND)
    assert (code, added) == (CLEAN, {"records": 0, "leader_epochs": 0}), err


FIRST_ID, SECOND_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def write_log(root, topic, values, *, topic_id=None, epochs=None, start=1000):
    """A record a batch, at offsets from 0 on, a millisecond apart."""
    directory = root / f"{topic}-0"
    directory.mkdir(parents=True, exist_ok=True)
    log = b"".join(
        encode_batch(
            [SimpleRecord(start + at, b"k", value, ())],
            base_offset=at,
            partition_leader_epoch=0 if epochs is None else epochs[at],
        )
        for at, value in enumerate(values)
    )
    (directory / f"{0:020d}.log").write_bytes(log)
    if topic_id is not None:
        metadata = f"version: 0\ntopic_id: {topic_id}"
        (directory / "partition.metadata").write_text(metadata)


OLD, NEW = [b"a", b"b", b"c"], [b"x", b"y", b"z", b"more"]
LOGS_OF_ONE_NAME: dict[str, tuple[dict[str, Any], dict[str, Any], list[bytes]]] = {
    "made-anew": (
        {"values": OLD, "topic_id": FIRST_ID},
        {"values": NEW, "topic_id": SECOND_ID},
        NEW,
    ),
    "without-id": ({"values": OLD}, {"values": NEW, "start": 5000}, NEW),
    "cut-and-written-again": (
        {"values": OLD, "topic_id": FIRST_ID},
        {"values": [b"a", *NEW[1:]], "topic_id": FIRST_ID, "epochs": [0, 3, 3, 3]},
        NEW[1:],
    ),
    "id-became-known": (
        {"values": OLD},
        {"values": [*OLD, b"d"], "topic_id": FIRST_ID},
        [b"d"],
    ),
}


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_records_that_took_the_place_of_others_are_rows_beside_them(
    request, capsys, tmp_path, form
):
    spark = request.getfixturevalue("delta_spark" if form == "delta" else "spark")
    where = [tmp_path / "data", "--output", tmp_path / "lake", "--format", form]
    where += ["--table", "records", "--no-sha256"]
    for topic, (before, _, _) in LOGS_OF_ONE_NAME.items():
        write_log(tmp_path / "data", topic, **before)
    assert run(capsys, *where, "--now", FIRST)[:2] == (CLEAN, {"records": 12})
    for topic, (_, after, _) in LOGS_OF_ONE_NAME.items():
        write_log(tmp_path / "data", topic, **after)
    assert run(capsys, *where, "--now", SECOND)[:2] == (CLEAN, {"records": 12})
    rows = spark.read.format(form).load(str(tmp_path / "lake" / "records")).collect()
    for topic, (_, after, new) in LOGS_OF_ONE_NAME.items():
        mine = [row for row in rows if row["topic"] == topic]
        assert sorted(bytes(row["value"]) for row in mine) == sorted([*OLD, *new])
        added = [row for row in mine if bytes(row["value"]) in new]
        assert {row["topic_id"] for row in added} == {after.get("topic_id")}
        assert {row["exported_at"].minute for row in added} == {1}


def test_damage_in_a_log_that_grows_is_exported_once(spark, capsys, tmp_path):
    """What is reported of it changes: how many bytes there are up to the end."""
    write_log(tmp_path / "data", "t", [b"a", b"b", b"c"])
    log = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 3 + 8] = 0x7F  # the length of the second batch
    log.write_bytes(content)
    where = [tmp_path / "data", "--output", tmp_path / "lake", "--format", "parquet"]
    where += ["--table", "records", "--table", "batches", "--table", "findings", "--no-sha256"]
    code, added, err = run(capsys, *where, "--now", FIRST)
    assert (code, added) == (FINDINGS, {"records": 2, "batches": 3, "findings": 1}), err
    log.write_bytes(content + encode_batch([SimpleRecord(9, b"k", b"d", ())], base_offset=3))
    code, added, err = run(capsys, *where, "--now", SECOND)
    assert (code, added) == (FINDINGS, {"records": 1, "batches": 1, "findings": 0}), err
    assert "findings: LOG002 1 (docs/findings)\n" in err


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_all_tables_are_exported_and_again_nothing(request, capsys, tmp_path, form):
    spark = request.getfixturevalue("delta_spark" if form == "delta" else "spark")
    (groups,) = golden.log_dirs(golden.shared("groups-4.3.1"))
    lake = tmp_path / "lake"
    arguments = [groups, "--output", lake, "--format", form, "--now", FIRST]
    code, added, err = run(capsys, *arguments)
    assert code == CLEAN, err
    there = {table: len(read(groups, table)) for table in COLUMNS if table not in WHAT_IF}
    assert added == there
    assert [table for table, rows in there.items() if not rows] == ["findings"]
    for table in ("findings", "log_dirs", "cluster_metadata"):
        found = spark.read.format(form).load(str(lake / table))
        assert sorted(found.columns) == sorted([*column_names(table), "exported_at"])
        assert found.count() == there[table]
    code, added, err = run(capsys, *arguments, "--now", SECOND)
    assert code == CLEAN, err
    assert added == dict.fromkeys(there, 0)


def test_tables_without_rows_are_tables_all_the_same(delta_spark, capsys, data, tmp_path):
    where = [data, "--table", "share_group_state", "--table", "findings"]
    for form in ("delta", "parquet"):
        lake = tmp_path / form
        for now in (FIRST, SECOND):
            code, added, err = run(capsys, *where, "--output", lake, "--format", form, "--now", now)
            assert (code, added) == (CLEAN, {"share_group_state": 0, "findings": 0}), err
        schema = export_schema("findings")
        reader = delta_spark.read.schema(schema) if form == "parquet" else delta_spark.read
        assert reader.format(form).load(str(lake / "findings")).count() == 0


def test_a_topic_that_is_not_there_starts_no_spark(capsys, data, tmp_path):
    where = [data, "--topic", "nosuch", "--partition", "0", "--output", tmp_path / "lake"]
    code, _, err = run(capsys, *where)
    assert code == COULD_NOT_RUN
    found = sum(path.is_dir() for path in data.iterdir())
    assert err == (
        "kafka-forensics export: no partition matches --topic nosuch --partition 0"
        f" ({found} partition found)\n"
    )
    assert not (tmp_path / "lake").exists()


# ------------------------------------------------------------------------------- nothing is new


@pytest.fixture
def writes(monkeypatch) -> list[str]:
    """Tables for which Spark was asked to write, as they come."""
    begun: list[str] = []

    def spy(write):
        def written(spark, frame, table, location):
            begun.append(table)
            return write(spark, frame, table, location)

        return written

    spies = {form: spy(write) for form, write in exporting._WRITERS.items()}
    monkeypatch.setattr(exporting, "_WRITERS", spies)
    return begun


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_table_that_has_every_row_is_not_written_again(
    request, capsys, data, tmp_path, writes, form
):
    request.getfixturevalue("delta_spark" if form == "delta" else "spark")
    where = [data, "--output", tmp_path / "lake", "--format", form]
    where += ["--table", "leader_epochs", "--table", "log_dirs"]
    assert run(capsys, *where, "--now", FIRST)[:2] == (CLEAN, {"leader_epochs": 1, "log_dirs": 1})
    assert sorted(writes) == ["leader_epochs", "log_dirs"]
    writes.clear()
    code, added, err = run(capsys, *where, "--now", SECOND)
    assert (code, added) == (CLEAN, {"leader_epochs": 0, "log_dirs": 0}), err
    assert writes == []
    # another table of the same evidence is new to this place
    assert run(capsys, *where, "--table", "checkpoints", "--now", SECOND)[0] == CLEAN
    assert writes == ["checkpoints"]
    names = sorted(path.name for path in (tmp_path / "lake" / "manifests").iterdir())
    assert names == ["2026-11-16T12-00-00.005Z.json", "2026-11-16T12-01-00.000Z.json"]


def test_rows_that_somebody_removed_come_again(delta_spark, capsys, data, tmp_path):
    from delta.tables import DeltaTable

    for form in ("delta", "parquet"):
        lake = tmp_path / form
        where = [data, "--output", lake, "--format", form, "--table", "leader_epochs"]
        assert run(capsys, *where, "--now", FIRST)[:2] == (CLEAN, {"leader_epochs": 1})
        if form == "delta":
            DeltaTable.forPath(delta_spark, str(lake / "leader_epochs")).delete()
        else:
            for path in (lake / "leader_epochs").glob("*.parquet"):
                path.unlink()
        assert run(capsys, *where, "--now", SECOND)[:2] == (CLEAN, {"leader_epochs": 1})


def test_other_content_of_the_same_size_and_time_is_new(spark, capsys, tmp_path):
    log = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    where = [tmp_path / "data", "--output", tmp_path / "lake", "--format", "parquet"]
    where += ["--table", "records"]
    write_log(tmp_path / "data", "t", [b"a"])
    os.utime(log, (1, 1))
    assert run(capsys, *where, "--now", FIRST)[:2] == (CLEAN, {"records": 1})
    write_log(tmp_path / "data", "t", [b"a"], start=2000)
    os.utime(log, (1, 1))
    assert run(capsys, *where, "--now", SECOND)[:2] == (CLEAN, {"records": 1})


def test_without_sums_rows_are_always_compared(spark, capsys, data, tmp_path, writes):
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--no-sha256"]
    for now, rows in ((FIRST, 1), (SECOND, 0)):
        where += ["--table", "leader_epochs"]
        assert run(capsys, *where, "--now", now)[:2] == (CLEAN, {"leader_epochs": rows})
    assert writes == ["leader_epochs", "leader_epochs"]


def test_brokers_that_are_exported_in_turn_are_known(spark, capsys, data, tmp_path, writes):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    for turn, now in enumerate((FIRST, SECOND, str(int(SECOND) + 1), str(int(SECOND) + 2))):
        where = [(data, other)[turn % 2], "--output", tmp_path / "lake", "--format", "parquet"]
        code, added, err = run(capsys, *where, "--table", "leader_epochs", "--now", now)
        assert (code, added) == (CLEAN, {"leader_epochs": int(turn < 2)}), err
    assert writes == ["leader_epochs", "leader_epochs"]


def test_damage_is_told_by_the_exit_code_whatever_is_exported_and_when(
    spark, capsys, tmp_path, writes
):
    write_log(tmp_path / "data", "t", [b"a", b"b"])
    log = tmp_path / "data" / "t-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    where = [tmp_path / "data", "--output", tmp_path / "lake", "--format", "parquet"]
    where += ["--table", "records"]
    for now, rows in ((FIRST, 1), (SECOND, 0)):
        code, added, err = run(capsys, *where, "--now", now)
        assert (code, added) == (FINDINGS, {"records": rows}), err
        assert "findings: LOG001 1 (docs/findings)\n" in err
    assert writes == ["records"]
    listing = [*where[:-2], "--table", "files", "--now", SECOND, "--no-sha256"]
    assert run(capsys, *listing)[0] == CLEAN  # names and sizes: no log was read


# ------------------------------------------------------------------------- files that change


def change_meanwhile(monkeypatch, change):
    """Once a table is written, and before the files are looked at again."""
    original = exporting.export

    def changing(*arguments, **options):
        return original(*arguments, **options, on_written=lambda _: change())

    monkeypatch.setattr("pipelines.export.export.export", changing)


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


CHANGES = {
    "shrinks": (lambda path: os.truncate(path, 100), "it shrank from 1020 to 100 bytes"),
    "vanishes": (lambda path: path.unlink(), "it vanished"),
    "is written to": (lambda path: os.utime(path, (1, 1)), "it was written to"),
    "is replaced": (
        lambda path: Path(shutil.copy2(path, f"{path}.new")).rename(path),
        "it was replaced",
    ),
}


@pytest.mark.parametrize("form", ["with-sums", "--no-sha256"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_that_changes_meanwhile_is_told(
    spark, capsys, data, tmp_path, monkeypatch, kind, form
):
    log = data / "transactions-0" / "00000000000000000000.log"
    change, how = CHANGES[kind]
    how = how.replace("1020", str(log.stat().st_size))
    change_meanwhile(monkeypatch, lambda: change(log))
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--table", "log_dirs"]
    more = ["--no-sha256"] if form == "--no-sha256" else []
    code, added, err = run(capsys, *where, *more, "--now", FIRST, "--quiet")
    assert (code, added) == (COULD_NOT_RUN, {"log_dirs": 1})
    assert err == f"{log}: changed while it was read: {how}\n"
    (place,) = (tmp_path / "lake" / "manifests").iterdir()
    manifest = json.loads(place.read_text())
    assert manifest["changed_while_exported"] == [str(log)]
    assert [each["changed"] for each in manifest["inputs"] if each["path"] == str(log)] == [how]
    assert manifest["source"] is None  # it proves nothing


def test_a_log_that_grows_meanwhile_is_a_note(spark, capsys, data, tmp_path, monkeypatch, writes):
    log = data / "transactions-0" / "00000000000000000000.log"
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--table", "log_dirs"]
    with monkeypatch.context() as patched:
        change_meanwhile(patched, lambda: append(log, bytes(7)))
        code, added, err = run(capsys, *where, "--now", FIRST)
    assert (code, added) == (CLEAN, {"log_dirs": 1})
    assert err.splitlines()[-1] == f"{log}: note: the file grew while it was read"
    place = tmp_path / "lake" / "manifests" / "2026-11-16T12-00-00.005Z.json"
    manifest = json.loads(place.read_text())
    assert manifest["changed_while_exported"] == []
    assert manifest["grown_while_exported"] == [str(log)]
    run(capsys, *where, "--now", SECOND)
    assert writes == ["log_dirs", "log_dirs"]  # the first run proves nothing about what came later


def test_a_file_that_cannot_be_read_makes_the_export_incomplete(
    spark, capsys, data, tmp_path, monkeypatch
):
    bad = data / "transactions-0" / "leader-epoch-checkpoint"
    opened = Storage.open

    def refuse(storage, path):
        if path == str(bad):
            raise PermissionError(13, "Permission denied", path)
        return opened(storage, path)

    monkeypatch.setattr(Storage, "open", refuse)
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--table", "leader_epochs"]
    code, _, err = run(capsys, *where, "--now", FIRST, "--quiet")
    assert code == COULD_NOT_RUN
    assert err.splitlines() == [f"{bad}: Permission denied"]


# -------------------------------------------------------------------------------- odd names


def test_a_name_that_is_no_utf8_is_in_the_manifest_with_its_bytes(spark, capsys, data, tmp_path):
    odd = os.fsencode(data) + b"/od\xff\x1b[2Jd-0"
    os.mkdir(odd)  # noqa: PTH102
    with open(odd + b"/00000000000000000000.log", "wb") as log:
        log.write(encode_batch([SimpleRecord(1, b"k", b"v", ())], base_offset=0))
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--table", "leader_epochs"]
    code, added, err = run(capsys, *where, "--now", FIRST)
    assert (code, added) == (CLEAN, {"leader_epochs": 1}), err
    assert "\x1b" not in err
    (place,) = (tmp_path / "lake" / "manifests").iterdir()
    inputs = json.loads(place.read_text())["inputs"]
    (found,) = [each for each in inputs if "path_base64" in each]
    assert base64.b64decode(found["path_base64"]) == odd + b"/00000000000000000000.log"
    assert found["path"] == f"{data}/od\ufffd\x1b[2Jd-0/00000000000000000000.log"
    assert len(found["sha256"]) == 64


def test_topics_of_any_name_are_exported_in_any_locale(tmp_path):
    batch = encode_batch([SimpleRecord(1, b"k", b"v", ())], base_offset=0)
    for name in (b"healthy-0", b"od\xffd-0", "größe-0".encode(), b"a\x1b[2Jb-0"):
        os.makedirs(directory := os.fsencode(tmp_path) + b"/data/" + name)  # noqa: PTH103
        with open(directory + b"/00000000000000000000.log", "wb") as log:
            log.write(batch)
    words = [str(tmp_path / "data"), "--output", str(tmp_path / "lake"), "--format", "parquet"]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", "export", *words, "--table", "records", "--quiet"],
        cwd=ROOT,
        env=dict(os.environ) | {"LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (CLEAN, "")
    assert done.stdout.splitlines()[1].split()[:2] == ["records", "4"]
    written = {path.parent.name for path in (tmp_path / "lake").rglob("*.parquet")}
    assert written == {"topic=healthy", "topic=od\ufffdd", "topic=größe", "topic=a%1B%5B2Jb"}


def test_a_message_about_an_odd_name_is_escaped(spark, capsys, data, tmp_path, monkeypatch):
    odd = data / "transactions-0" / "a\x1b]0;owned\x07b"
    odd.write_bytes(b"")
    change_meanwhile(monkeypatch, odd.unlink)
    where = [data, "--output", tmp_path / "lake", "--format", "parquet", "--table", "log_dirs"]
    code, _, err = run(capsys, *where, "--now", FIRST, "--quiet")
    assert code == COULD_NOT_RUN
    shown = str(odd).replace("\x1b", "\\x1b").replace("\x07", "\\x07")
    assert err == f"{shown}: changed while it was read: it vanished\n"


def test_output_under_a_name_that_is_no_utf8_is_refused(spark, capsys, data, tmp_path):
    output = os.fsdecode(os.fsencode(tmp_path) + b"/la\xffke")
    code, _, err = run(capsys, data, "--output", output, "--format", "parquet", "--quiet")
    assert code == COULD_NOT_RUN
    assert err == (
        f"kafka-forensics export: {tmp_path}/la\\xffke: found a name that is not UTF-8,"
        " expected one that Spark can write to\n"
    )


def test_a_batch_above_the_limit_ends_no_other(spark, capsys, tmp_path):
    write_log(tmp_path / "data", "healthy", [b"a"])
    directory = tmp_path / "data" / "bomb-0"
    directory.mkdir()
    large = [SimpleRecord(1, b"k", bytes(5000), ())]
    (directory / f"{0:020d}.log").write_bytes(encode_batch(large, codec=Codec.GZIP))
    where = [tmp_path / "data", "--output", tmp_path / "lake", "--format", "parquet"]
    where += ["--max-decompressed-bytes", "1000", "--table", "records", "--now", FIRST]
    code, added, err = run(capsys, *where)
    assert (code, added) == (FINDINGS, {"records": 1})
    assert "findings: LOG006 1 (docs/findings)\n" in err


# --------------------------------------------------------------------------------- full disks


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_full_disk_is_one_line_and_leaves_no_half_table(request, capsys, tmp_path, form):
    spark = request.getfixturevalue("delta_spark" if form == "delta" else "spark")
    values = [os.urandom(20_000) for _ in range(100)]
    write_log(tmp_path / "data", "t", values)
    with small_disk(tmp_path / "disk", "1m"):
        lake = tmp_path / "disk" / "lake"
        where = [tmp_path / "data", "--output", lake, "--format", form, "--quiet"]
        code, added, err = run(capsys, *where, "--table", "records", "--now", FIRST)
        assert (code, added) == (COULD_NOT_RUN, {})
        assert err == f"kafka-forensics export: {lake}: No space left on device\n"
        assert [path for path in lake.rglob("*") if path.is_file()] == []
        spark._jvm.System.gc()  # a file that could not be written is open until then
        time.sleep(1)
        write_log(tmp_path / "data", "t", values[:1])
        code, added, err = run(capsys, *where, "--table", "records", "--now", SECOND)
        assert (code, added) == (CLEAN, {"records": 1}), err
        (row,) = spark.read.format(form).load(str(lake / "records")).collect()
        assert bytes(row["value"]) == values[0]
        spark._jvm.System.gc()


# ------------------------------------------------------------------------------- the manifest


def test_the_manifest_has_the_sum_of_every_file(spark, capsys, data, tmp_path):
    lake = tmp_path / "lake"
    arguments = [data, "--output", lake, "--format", "parquet", "--table", "leader_epochs"]
    code, added, err = run(capsys, *arguments, "--now", FIRST)
    assert (code, added) == (CLEAN, {"leader_epochs": 1})
    place = lake / "manifests" / "2026-11-16T12-00-00.005Z.json"
    assert err.endswith(f"files read; manifest: {place}\n")
    manifest = json.loads(place.read_text())
    # Sums and sizes of the same files when the broker's directory was packed.
    packed = {each.path: (each.sha256, each.size) for each in golden.checksums(PACK)}
    found = {
        str(Path(each["path"]).relative_to(tmp_path)): (each["sha256"], each["size_in_bytes"])
        for each in manifest["inputs"]
    }
    there = {str(path.relative_to(tmp_path)) for path in data.rglob("*") if path.is_file()}
    assert found == {path: packed[path] for path in there}
    assert manifest["changed_while_exported"] == []
    (output,) = manifest["outputs"]
    assert (output["table"], output["rows_added"]) == ("leader_epochs", 1)
    log = data / "transactions-0" / "00000000000000000000.log"
    times = {each["path"]: each["modified_ms"] for each in manifest["inputs"]}
    assert times[str(log)] == log.stat().st_mtime_ns // 1_000_000


def test_a_file_that_cannot_be_read_has_no_sum_but_a_reason(tmp_path):
    (tmp_path / "a-0").mkdir()
    gone = InputFile(path=str(tmp_path / "a-0" / "gone"), size_in_bytes=3, modified_ms=1)
    (found,) = with_digests([gone], Storage([str(tmp_path)]))
    assert found.sha256 is None
    assert "No such file" in found.problem


def test_files_that_came_went_grew_or_were_touched_are_told():
    def file(path, size, time):
        return InputFile(path=path, size_in_bytes=size, modified_ms=time)

    before = [file("same", 1, 1), file("gone", 1, 1), file("grown", 1, 1), file("touched", 1, 1)]
    after = [file("same", 1, 1), file("new", 1, 1), file("grown", 2, 1), file("touched", 1, 2)]
    assert changes(before, after) == Changes(
        {"gone": "it vanished", "touched": "it was written to"}, ("grown", "new")
    )


def test_files_of_topics_that_tables_need_are_in_the_manifest_though_not_selected():
    includes = exporting._input_filter(lambda topic, _: topic == "orders", ["consumer_offsets"])
    assert includes("orders", 0)
    assert includes("__consumer_offsets", 7)
    assert not includes("__transaction_state", 0)


def test_records_have_no_column_for_damage_which_findings_have():
    assert "_corrupt_record" not in export_schema("records").names


def test_limits_and_links_reach_the_data_source():
    words = ["data", "--output", "x", "--max-decompressed-bytes", "1000", "--follow-links"]
    arguments = options.parse(export._parser(), words)
    assert export._options(arguments) == {
        "isolationLevel": "read_uncommitted",
        "maxDecompressedBytes": "1000",
        "followLinks": "true",
    }


def test_a_row_is_known_by_its_key_and_null_is_a_value():
    assert is_known("records") == (
        "old.`topic` <=> new.`topic` AND old.`partition` <=> new.`partition`"
        " AND old.`offset` <=> new.`offset`"
        " AND (old.`topic_id` = new.`topic_id`) IS NOT FALSE"
        " AND old.`leader_epoch` <=> new.`leader_epoch`"
        " AND old.`timestamp_ms` <=> new.`timestamp_ms`"
    )
    assert "to_json(old.`checkpoints`) <=> to_json(new.`checkpoints`)" in is_known("log_dirs")


def test_output_stays_outside_the_evidence(spark, capsys, data):
    before = sorted(data.rglob("*"))
    code, _, err = run(capsys, data, "--output", data / "lake", "--format", "parquet")
    assert code == COULD_NOT_RUN
    assert err.splitlines()[-1].endswith(
        f"{data}/lake: output must not be inside the evidence ({data})"
    )
    assert sorted(data.rglob("*")) == before


@pytest.mark.parametrize(
    ("output", "evidence"),
    [
        ("/data/lake", "/data"),
        ("/data", "/data/"),
        ("file:///data/lake", "/data"),
        ("file:/data/lake", "/data"),
        ("/data/x/../lake", "file:///data"),
        ("s3a://bucket/kafka/lake", "s3://user:secret@bucket/kafka?region=eu-central-1"),
        ("abfss://box@account.dfs.core.windows.net/a/b", "abfs://box/a"),
        ("hdfs://namenode:8020/kafka/lake", "hdfs://namenode/kafka"),
    ],
)
def test_output_in_the_evidence_is_refused_however_it_is_said(output, evidence):
    with pytest.raises(OutputError, match="output must not be inside the evidence") as raised:
        ensure_outside(output, ["/elsewhere", evidence])
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("output", "evidence"),
    [
        ("/data", "/data/kafka"),
        ("/data-lake", "/data"),
        ("/bucket/x", "s3://bucket"),
        ("s3a://lake/kafka", "s3://bucket/kafka"),
    ],
)
def test_output_beside_or_above_the_evidence_is_not_in_it(output, evidence):
    ensure_outside(output, [evidence])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("{tmp}/a-file", "{tmp}/a-file: cannot be written to: "),
        ("{tmp}/a-file/lake", "{tmp}/a-file/lake: cannot be written to: "),
        ("/proc/lake", "/proc/lake: cannot be written to: "),
        (
            "s3a://bucket/lake",
            "has no s3a://: a line `spark.jars.packages org.apache.hadoop:hadoop-aws:3.",
        ),
        ("s3://bucket/lake", "s3://bucket/lake: found s3://, expected s3a://"),
        ("foo://bucket/lake", "foo://bucket/lake: found foo://, expected a place"),
    ],
)
def test_output_that_cannot_be_written_to_is_one_line(
    spark, capsys, data, tmp_path, output, message
):
    (tmp_path / "a-file").write_text("mine")
    where = output.format(tmp=tmp_path)
    code, added, err = run(capsys, data, "--output", where, "--format", "parquet", "--quiet")
    assert (code, added) == (COULD_NOT_RUN, {})
    assert len(err.splitlines()) == 1, err
    assert message.format(tmp=tmp_path) in err
    assert (tmp_path / "a-file").read_text() == "mine"


def test_a_place_that_can_be_written_to_is_left_as_it_was(spark, tmp_path):
    ensure_writable(spark, str(tmp_path / "new" / "lake"))
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "lake"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["."], "no --output DIR given"),
        ([".", "--output", "x", "--table", "record"], "table record: did you mean records?"),
        ([".", "--output", "x", "--format", "csv"], "invalid choice: 'csv'"),
    ],
)
def test_wrong_usage_is_one_line_and_starts_no_spark(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == USAGE
    assert message in err.splitlines()[0]


def test_a_path_at_which_nothing_is_starts_no_spark(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path / "nowhere", "--output", tmp_path / "lake")
    assert code == COULD_NOT_RUN
    missing = f"{tmp_path}/nowhere: No such file or directory ("
    assert err.startswith(f"kafka-forensics export: {missing}")
    assert not (tmp_path / "lake").exists()


class _Conf:
    def get(self, name, default):
        return default


class _SessionWithoutDelta:
    _jvm = None
    conf = _Conf()


def test_a_session_without_delta_says_which_line_brings_it(spark):
    without: Any = _SessionWithoutDelta()
    without._jvm = spark._jvm
    with pytest.raises(DeltaUnavailableError) as raised:
        ensure_delta(without)
    assert str(raised.value) == (
        "this Spark session has no Delta: the line"
        " `spark.jars.packages io.delta:delta-spark_4.2_2.13:4.4.0` of conf/spark-defaults.conf"
        " brings its jars; --format parquet needs none"
    )


def test_where_the_jars_cannot_be_had_one_sentence_says_so(data, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", "export", str(data), "--output", str(tmp_path / "lake")],
        cwd=ROOT,
        env=dict(os.environ) | {"JAVA_TOOL_OPTIONS": f"{NO_NETWORK} -Duser.home={tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == COULD_NOT_RUN
    assert done.stderr == (  # and nothing of what Ivy says
        "kafka-forensics export: Spark did not start with Delta's jars: the line"
        " `spark.jars.packages io.delta:delta-spark_4.2_2.13:4.4.0` of conf/spark-defaults.conf"
        " brings its jars; --format parquet needs none\n"
    )
    assert not (tmp_path / "lake").exists()


def test_export_is_a_verb():
    assert "export" in cli.VERBS
