"""Log directories elsewhere: several, globs, single partitions and files, and a bucket of S3."""

import io
import json
import logging
import pickle
import shutil
from pathlib import Path

import pytest

from pipelines import LogDirectory
from pipelines.export.export import ExportOptions, export
from pipelines.source.options import OptionsError
from pipelines.source.storage import Storage, StorageError
from tests import golden
from tests.pipelines.readers import read
from tests.pipelines.segments import write_segment

PACK = "cleaner-4.3.1"
_PREALLOCATED = 10 * 1024 * 1024 - 4
"""Indexes that are nothing but zeros: not worth an upload."""


def places(rows):
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def received(name, isolation="read_uncommitted"):
    return places(
        row for row in golden.expected(name) if "offset" in row and row["isolation"] == isolation
    )


def consumable(rows):
    return places(row for row in rows if row["topic"] != "__cluster_metadata")


# ------------------------------------------------------------------------------- local


@pytest.mark.parametrize("pattern", ["data-*", "data-[12]", "data-1,data-2"])
def test_several_log_dirs_by_glob_or_by_name(pattern):
    root = golden.shared(PACK)
    path = ",".join(f"{root}/{each}" for each in pattern.split(",")) if "," in pattern else None
    assert consumable(read(path or f"{root}/{pattern}")) == received(PACK)


def test_a_partition_and_a_file_are_read_by_themselves():
    root = golden.shared("unclean-3.9.1") / "data"
    rows = [row for row in received("unclean-3.9.1") if row[0] == "rolled"]
    assert places(read(root / "rolled-0")) == rows
    assert places(read(f"{root}/rolled-0/")) == rows
    log = root / "rolled-0" / f"{12:020d}.log"
    assert places(read(log)) == [row for row in rows if 12 <= row[2] < 18]
    assert places(read(f"file://{log}")) == places(read(log))
    assert places(read(f"file:{log}")) == places(read(log))


def test_several_files_of_a_partition_are_read_together():
    root = golden.shared("unclean-3.9.1") / "data"
    rows = [row for row in received("unclean-3.9.1") if row[0] == "rolled"]
    assert places(read(f"{root}/rolled-0/*.log")) == rows
    logs = [f"{root}/rolled-0/{offset:020d}.log" for offset in (6, 12)]
    assert places(read(",".join(logs))) == [row for row in rows if 6 <= row[2] < 18]


def test_what_is_named_twice_is_read_once():
    root = golden.shared("unclean-3.9.1") / "data"
    rows = [row for row in received("unclean-3.9.1") if row[0] == "rolled"]
    for path in (f"{root}/rolled-0,{root}", f"{root},{root}/rolled-0/", f"{root},{root}/../data"):
        assert places(read(path, topics="rolled")) == rows


def test_directories_to_be_deleted_are_read_only_when_named():
    root = golden.shared(PACK)
    [moved] = root.glob("data-*/moved-0.*-delete")
    assert {row["topic"] for row in read(moved)} == {"moved"}
    rows = read(root, columns="topic,path", topics="moved")
    assert rows
    assert not any(row["path"].startswith(str(moved)) for row in rows)


def test_a_segment_with_a_suffix_is_read_only_when_named(tmp_path):
    write_segment(tmp_path / "t-0", 0, 10)
    write_segment(tmp_path / "t-0", 10, 10)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    deleted = log.rename(f"{log}.deleted")
    assert places(read(tmp_path)) == [("t", 0, offset) for offset in range(10, 20)]
    assert places(read(deleted)) == [("t", 0, offset) for offset in range(10)]


def test_a_file_in_any_directory_is_read(tmp_path):
    write_segment(tmp_path / "evidence", 0, 3)
    rows = read(tmp_path / "evidence" / f"{0:020d}.log")
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("evidence", None, 0),
        ("evidence", None, 1),
        ("evidence", None, 2),
    ]


def test_where_nothing_is_there_is_an_error_of_one_line(tmp_path):
    for path, message in [
        (tmp_path / "none", "No such file or directory"),
        (tmp_path / "none*", "found no match"),
        (f"{golden.shared(PACK)},{tmp_path}/none", "^/[^,]*/none: No such file or directory [(].*"),
        ("s3a://bucket/x", "^s3a://bucket/x: found s3a://, expected a path, or s3://, gs://"),
        (tmp_path, "no Kafka files found"),
    ]:
        with pytest.raises(StorageError, match=message) as caught:
            read(path)
        assert isinstance(caught.value, OptionsError)
        assert "\n" not in str(caught.value)
        assert str(path).rpartition(",")[2] in str(caught.value)


def test_a_file_that_is_none_of_kafkas_is_refused(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    with pytest.raises(StorageError) as raised:
        Storage([str(notes)]).scan()
    assert str(raised.value) == f"{notes}: no Kafka files found"


def test_one_of_kafkas_files_is_enough(tmp_path):
    (tmp_path / "anything").mkdir()
    checkpoint = tmp_path / "anything" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n0\n")
    (tmp_path / "empty-0").mkdir()
    assert len(Storage([str(checkpoint)]).scan().log_dirs) == 1
    with pytest.raises(StorageError, match="no Kafka files found"):
        Storage([str(tmp_path / "empty-0")]).scan()


def test_a_directory_of_other_things_is_not_named_by_the_first_of_them(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError) as raised:
        Storage([str(tmp_path)]).scan()
    assert str(raised.value) == (
        f"{tmp_path}: no Kafka files found; {tmp_path}/dangling: dangling -> "
        f"{tmp_path}/nowhere: a link to nothing"
    )


def test_a_store_whose_library_is_not_there_is_said_in_a_line(monkeypatch):
    from pyarrow import fs

    def refuse(uri):
        raise OSError("Unable to load libjvm\ndlopen(/a/libjvm.so) failed\ndlopen(/b) failed")

    monkeypatch.setattr(
        fs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(refuse)})
    )
    with pytest.raises(StorageError, match=r"^hdfs://namenode/x: Unable to load libjvm$"):
        Storage(["hdfs://namenode:8020/x"]).scan()


def test_a_store_that_does_not_answer_is_said_in_a_line():
    uri = "s3://bucket/data?endpoint_override=127.0.0.1:1&scheme=http"
    with pytest.raises(StorageError, match=r"^s3://bucket/data: When [^\n]*connect[^\n]*$"):
        Storage([uri]).scan()


def test_what_the_disk_does_not_let_us_look_at_fails_fast_and_else_the_rest_is_read(tmp_path):
    write_segment(tmp_path / "t-0", 0, 3)
    (tmp_path / "t-1").mkdir()
    (tmp_path / "t-1" / f"{0:020d}.log").symlink_to(tmp_path / "nowhere")
    # A row with `_corrupt_record`, and no offset, stands for the log that could not be read.
    assert places(read(tmp_path)) == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2), ("t", 1, None)]
    with pytest.raises(StorageError, match=r"t-1/0+\.log: 0+\.log -> .*: a link to nothing"):
        read(tmp_path, mode="FAILFAST")


def test_reads_are_counted_and_nothing_is_written(tmp_path):
    write_segment(tmp_path / "t-0", 0, 10)
    storage = Storage([str(tmp_path)])
    log = str(tmp_path / "t-0" / f"{0:020d}.log")
    with storage.open(log) as file:
        assert file.read(7) == (tmp_path / "t-0" / f"{0:020d}.log").read_bytes()[:7]
        assert not file.writable()
    assert storage.bytes_read == 7
    files = storage.files(str(tmp_path / "t-0"))
    for change in (
        lambda: files.open("x", create=True),
        lambda: files.open(f"{0:020d}.log"),
        lambda: files.rename(f"{0:020d}.log", "x"),
        lambda: files.delete(f"{0:020d}.log"),
        lambda: files.set_modified_ms(f"{0:020d}.log", 0),
        files.sync_directory,
    ):
        with pytest.raises(PermissionError, match="evidence is never written to"):
            change()
    assert pickle.loads(pickle.dumps(storage)).paths == storage.paths


# ------------------------------------------------------------------------------- S3


@pytest.fixture(scope="module")
def bucket():
    """A server of the S3 protocol with a broker's log directories in a bucket."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = f"endpoint_override={host}:{port}&scheme=http&allow_bucket_creation=true"
    filesystem, _ = fs.FileSystem.from_uri(f"s3://user:secret@evidence/?{settings}")
    filesystem.create_dir("evidence")
    root = golden.shared(PACK)
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_size < _PREALLOCATED:
            with filesystem.open_output_stream(f"evidence/x/{path.relative_to(root)}") as target:
                shutil.copyfileobj(io.BytesIO(path.read_bytes()), target)
    yield lambda path: f"s3://user:secret@evidence/{path}?{settings}"
    server.stop()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_bucket_gives_what_the_consumer_received(bucket, isolation):
    rows = read(bucket("x"), isolationLevel=isolation)
    assert consumable(rows) == received(PACK, isolation)


def test_rows_of_a_bucket_show_its_path_without_the_password(bucket):
    rows = read(bucket("x/data-2"), "batches", topics="compacted.tombstones")
    assert {row["path"].rpartition("/")[0] for row in rows} == {
        "s3://evidence/x/data-2/compacted.tombstones-0"
    }
    local = read(golden.shared(PACK) / "data-2", "batches", topics="compacted.tombstones")
    without_path = [{**row, "path": None} for row in rows]
    assert without_path == [{**row, "path": None} for row in local]


def test_a_bucket_has_globs_partitions_and_files_too(bucket):
    assert consumable(read(bucket("x/data-*"))) == received(PACK)
    wanted = [row for row in received(PACK) if row[0] == "compacted.tombstones"]
    assert places(read(bucket("*/data-2/compacted.tombstones-0"))) == wanted
    file = f"x/data-2/compacted.tombstones-0/{0:020d}.log"
    found = places(read(bucket(file)))
    assert found
    assert set(found) <= set(wanted)


def test_what_is_named_twice_in_a_bucket_is_read_once(bucket):
    both = f"{bucket('x/data-2')},{bucket('x/data-2/compacted.tombstones-0')}"
    wanted = [row for row in received(PACK) if row[0] == "compacted.tombstones"]
    assert places(read(both, topics="compacted.tombstones")) == wanted


def test_what_is_not_in_a_bucket_is_said_without_the_password(bucket):
    for path in ("x/data-9", "x/none-*"):
        with pytest.raises(StorageError, match=r"s3://evidence/x/") as caught:
            read(bucket(path))
        assert "secret" not in str(caught.value)


def test_a_bucket_is_cut_into_splits_by_its_indexes(bucket):
    rows = read(bucket("x/data-1"), maxSplitBytes="1k", columns="topic,partition,offset")
    assert places(rows) == places(read(golden.shared(PACK) / "data-1"))


def test_spark_reads_a_bucket(bucket, spark):
    rows = spark.read.format("kafka_files").option("topics", "compacted.*").load(bucket("x/data-2"))
    wanted = [row for row in received(PACK) if row in places(read(golden.shared(PACK) / "data-2"))]
    found = [(row.topic, row.partition, row.offset) for row in rows.collect()]
    assert sorted(found) == [row for row in wanted if row[0].startswith("compacted.")]
    assert found


def test_what_is_exported_from_a_bucket_says_where_from_without_the_password(
    bucket, spark, tmp_path
):
    log = LogDirectory(spark, bucket("x/data-2"))
    assert repr(log).startswith("LogDirectory('s3://evidence/x/data-2')\ns3://evidence/x/data-2: ")
    done = export(
        log,
        str(tmp_path),
        ExportOptions(tables=["leader_epochs"], form="parquet"),
        now_ms=0,
    )
    sums = {each.path.removeprefix("s3://evidence/x/"): each.sha256 for each in done.inputs}
    packed = {each.path: each.sha256 for each in golden.checksums(PACK)}
    assert sums == {path: packed[path] for path in sums}
    assert len(sums) > 20
    assert done.tables[0].rows_added > 5
    manifest = Path(done.manifest).read_text()
    assert json.loads(manifest)["options"]["paths"] == ["s3://evidence/x/data-2"]
    assert "secret" not in manifest
