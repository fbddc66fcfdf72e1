"""What is there, as typed values: of directories by real brokers, and of what can go wrong."""

import json
import os
import random
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest

from kafka_log.inventory import directory
from kafka_log.inventory.inventory import CheckpointState, Inventory, LogDir, Partition, Trouble
from kafka_log.inventory.scan import scan
from kafka_log.names import DirectoryKind, FileKind, FileState
from tests import golden
from tests.unreadable import unreadable

CHECKPOINTS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "recovery_point",
    FileKind.REPLICATION_OFFSET_CHECKPOINT: "high_watermark",
    FileKind.CLEANER_OFFSET_CHECKPOINT: "cleaner_offset",
}


def by_name(log_dir: LogDir) -> dict[str, Partition]:
    return {str(partition.name): partition for partition in log_dir.partitions}


def one(inventory: Inventory) -> LogDir:
    (log_dir,) = inventory.log_dirs
    return log_dir


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def reported(inventory: Inventory) -> list[tuple[str, ...]]:
    return [tuple(problem[:3]) for problem in inventory.all_problems()]


@pytest.mark.parametrize("pack", golden.names())
def test_every_file_of_a_broker_is_found_with_its_size_and_nothing_is_wrong(pack):
    root = golden.shared(pack)
    inventory = scan([root])
    found = {
        (os.path.relpath(file.path, root), file.size_in_bytes)
        for log_dir in inventory.log_dirs
        for file in (*log_dir.files, *(f for each in log_dir.partitions for f in each.files))
    }
    assert found == {(each.path, each.size) for each in golden.checksums(pack) if "/" in each.path}
    assert reported(inventory) == []
    assert sum(each.size_in_bytes for each in inventory.log_dirs) == sum(s for _, s in found)


@pytest.mark.parametrize("pack", golden.names())
def test_partitions_have_their_rows_of_the_checkpoints(pack):
    for log_dir in scan([golden.shared(pack)]).log_dirs:
        for kind, attribute in CHECKPOINTS.items():
            file = Path(log_dir.path, kind.value)
            text = file.read_text() if file.exists() else ""
            rows = {}
            for line in text.split("\n")[2:-1]:
                topic, partition, offset = line.split(" ")
                rows[topic, int(partition)] = int(offset)
            found = {
                (partition.topic, partition.partition): getattr(partition, attribute)
                for partition in log_dir.partitions
                if getattr(partition, attribute) is not None
            }
            gone = {
                (topic, partition) for _, topic, partition, _ in log_dir.rows_without_directory()
            }
            assert found == {key: offset for key, offset in rows.items() if key not in gone}
            if not rows:
                empty = CheckpointState.EMPTY if file.exists() else CheckpointState.MISSING
                assert log_dir.checkpoints[kind].state is empty


@pytest.mark.parametrize("pack", golden.names())
def test_logs_start_where_kafkas_consumer_was_told(pack):
    starts = {
        (each["topic"], each["partition"]): each["beginning_offset"]
        for each in golden.expected(pack)
        if each.get("end_offset") is not None and each["isolation"] == "read_uncommitted"
    }
    found = {
        (partition.topic, partition.partition): partition.log_start_offset
        for _, partition in scan([golden.shared(pack)]).partitions()
        if partition.state is DirectoryKind.PARTITION
    }
    assert {key: found[key] for key in starts} == starts


def test_who_had_a_log_dir_and_how_it_was_stopped():
    clean, unclean = (
        one(scan([golden.shared(pack) / "data"])) for pack in ("clean-3.9.1", "unclean-4.3.1")
    )
    marker = json.loads(Path(clean.path, ".kafka_cleanshutdown").read_text())
    assert (clean.is_clean, clean.broker_epoch) == (True, marker["brokerEpoch"])
    assert (unclean.is_clean, unclean.broker_epoch) == (False, None)
    assert (clean.has_lock, unclean.has_lock) == (False, True)
    assert unclean.meta is not None
    assert (unclean.meta.node_id, unclean.meta.cluster_id) == (1, "Z29sZGVuLWRpcmVjdG9yeQ")
    assert unclean.meta.directory_id is not None


def test_a_broker_of_zookeepers_time_has_no_epoch_and_no_directory_id():
    log_dir = one(scan([golden.shared("legacy-2.8.2")]))
    assert (log_dir.is_clean, log_dir.broker_epoch) == (True, None)
    assert log_dir.meta is not None
    assert (log_dir.meta.version, log_dir.meta.directory_id) == (0, None)
    assert log_dir.metadata is None


def test_directories_are_what_their_suffix_says_and_names_like_a_suffix_live():
    inventory = scan([golden.shared("cleaner-4.3.1")])
    states = {
        (Path(log_dir.path).name, partition.topic, partition.partition): partition.state
        for log_dir, partition in inventory.partitions()
    }
    assert states["data-1", "deleted.topic", 0] is DirectoryKind.DELETE
    assert states["data-2", "deleted.topic", 1] is DirectoryKind.DELETE
    assert states["data-1", "moved", 0] is DirectoryKind.DELETE
    assert states["data-2", "moved", 0] is DirectoryKind.PARTITION
    assert states["data-1", "moving", 0] is DirectoryKind.FUTURE
    assert states["data-2", "moving", 0] is DirectoryKind.PARTITION
    for topic in ("audit-delete", "audit.future"):
        assert {state for key, state in states.items() if key[1] == topic} == {
            DirectoryKind.PARTITION
        }
    topics = {topic.name: topic for topic in inventory.topics()}
    assert len(topics["orders-0"].partitions) == 3
    assert len(topics["moved"].topic_ids) == 1


def test_topic_ids_of_files_and_of_metadata_agree_across_log_dirs():
    inventory = scan([golden.shared("cleaner-4.3.1")])
    second = inventory.log_dirs[1]
    assert second.metadata is None  # it lies in the first
    for _, partition in inventory.partitions():
        if partition.topic == "deleted.topic":
            assert partition.metadata_topic_id is None
            assert partition.topic_id is not None
        elif partition.topic != "__cluster_metadata":
            assert partition.topic_id == partition.metadata_topic_id is not None


def test_segments_of_a_partition_with_what_stands_beside_them():
    partition = by_name(one(scan([golden.shared("unclean-4.3.1")])))["rolled-by.time-0"]
    first, *_ = partition.segments
    assert [segment.base_offset for segment in partition.leftovers] == [0, 3]
    assert {segment.state for segment in partition.leftovers} == {FileState.DELETED}
    assert first.base_offset == 6
    assert first.missing == ()
    assert first.producer_snapshot is not None
    assert first.modified_ms == Path(first.log.path).stat().st_mtime_ns // 1_000_000
    assert partition.leftovers[0].size_in_bytes == 116
    assert len(partition.strays) == 7


def test_stray_files_are_named_with_what_they_are(tmp_path):
    zero, five = f"{0:020d}", f"{5:020d}"
    touch(
        tmp_path,
        "meta.properties.tmp",
        f"{zero}.log",
        "notes.txt",
        f"t-0/{zero}.log",
        f"t-0/{zero}.index",
        f"t-0/{zero}.log.swap",
        f"t-0/{zero}.index.cleaned",
        f"t-0/{five}.index",
        f"t-0/{five}.snapshot.deleted",
        "t-0/7.log",
        "t-0/leader-epoch-checkpoint.tmp",
        "t-0/recovery-point-offset-checkpoint",
        "t-0/core.1234",
    )
    log_dir = one(scan([tmp_path]))
    (partition,) = log_dir.partitions
    strays = {Path(file.path).name: file.stray for file in (*log_dir.strays, *partition.strays)}
    swapped = "finished output of the cleaner or of a split, swapped in at the next start"
    cleaned = "unfinished output of the cleaner or of a split, removed at the next start"
    half = "incomplete replacement of a file"
    assert strays == {
        "meta.properties.tmp": half,
        f"{zero}.log": "records of a segment: does not belong here",
        "notes.txt": "not a Kafka file",
        f"{zero}.log.swap": swapped,
        f"{zero}.index.cleaned": cleaned,
        f"{five}.index": "index without a .log file, removed at the next start",
        f"{five}.snapshot.deleted": "marked as deleted, removed soon or at the next start",
        "7.log": "not a name that Kafka writes: no broker opens it",
        "leader-epoch-checkpoint.tmp": half,
        "recovery-point-offset-checkpoint": "recovery points: does not belong here",
        "core.1234": "not a Kafka file",
    }
    (segment,) = partition.segments
    assert segment.missing == (FileKind.TIME_INDEX,)
    assert {(each.base_offset, each.state) for each in partition.leftovers} == {
        (0, FileState.SWAP),
        (0, FileState.CLEANED),
        (5, FileState.LIVE),
    }


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (None, CheckpointState.MISSING),
        (b"", CheckpointState.EMPTY),
        (b"0\n", CheckpointState.EMPTY),
        (b"0\n0\n", CheckpointState.EMPTY),
        (b"0\n1\nt 0 7\n", CheckpointState.WITH_ROWS),
        (b"0\n2\nt 0 7\n", CheckpointState.MALFORMED),
        (b"1\n1\nt 0 7\n", CheckpointState.MALFORMED),
        (b"\xff\xfe", CheckpointState.MALFORMED),
    ],
)
def test_a_checkpoint_is_told_as_it_is(tmp_path, content, state):
    touch(tmp_path, ".lock", f"t-0/{3:020d}.log")
    file = tmp_path / "recovery-point-offset-checkpoint"
    if content is not None:
        file.write_bytes(content)
    inventory = scan([tmp_path])
    log_dir = one(inventory)
    assert log_dir.checkpoints[FileKind.RECOVERY_POINT_CHECKPOINT].state is state
    (partition,) = log_dir.partitions
    assert partition.recovery_point == (7 if state is CheckpointState.WITH_ROWS else None)
    malformed = [problem.path for problem in inventory.all_problems()]
    assert malformed == ([str(file)] if state is CheckpointState.MALFORMED else [])


def test_the_log_start_is_the_later_of_checkpoint_and_first_segment(tmp_path):
    touch(tmp_path, f"a-0/{3:020d}.log", f"b-0/{9:020d}.log", "c-0/leader-epoch-checkpoint")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n2\na 0 5\nb 0 5\n")
    starts = {each.topic: each.log_start_offset for each in one(scan([tmp_path])).partitions}
    assert starts == {"a": 5, "b": 9, "c": None}


def test_rows_of_partitions_that_are_elsewhere_are_told(tmp_path):
    touch(tmp_path, f"a-0/{0:020d}.log", f"b-0.{uuid.UUID(int=5).hex}-delete/{0:020d}.log")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\na 0 5\nb 0 6\n")
    log_dir = one(scan([tmp_path]))
    rows = [*log_dir.rows_without_directory()]
    assert rows == [(FileKind.CLEANER_OFFSET_CHECKPOINT, "b", 0, 6)]
    assert by_name(log_dir)[f"b-0.{uuid.UUID(int=5).hex}-delete"].cleaner_offset is None


def test_damaged_small_files_are_told_and_the_rest_is_there(tmp_path):
    root = golden.unpack("clean-3.9.1", tmp_path) / "data"
    (root / "meta.properties").write_text("version=1\nnode.id=x\ncluster.id=c\n")
    (root / ".kafka_cleanshutdown").write_text("{")
    (root / "codecs-0" / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")
    inventory = scan([root])
    log_dir = one(inventory)
    assert {problem.path for problem in inventory.all_problems()} == {
        str(root / name)
        for name in ("meta.properties", ".kafka_cleanshutdown", "codecs-0/partition.metadata")
    }
    assert all(problem.trouble is Trouble.MALFORMED for problem in inventory.all_problems())
    assert log_dir.meta is None
    assert log_dir.is_clean  # to a broker it is enough that the file is there
    assert by_name(log_dir)["codecs-0"].topic_id is None
    assert by_name(log_dir)["codecs-0"].metadata_topic_id is not None


def test_a_log_dir_may_be_named_like_a_partition_and_come_from_above_or_below():
    root = golden.shared("cleaner-4.3.1")
    whole = scan([root])
    assert [Path(each.path).name for each in whole.log_dirs] == ["data-1", "data-2"]
    assert scan([root / "data-1", root / "data-2"]).log_dirs == whole.log_dirs
    assert scan([root.parent]).log_dirs == whole.log_dirs
    assert scan([root, root / "data-1"]).log_dirs == whole.log_dirs


def test_a_partition_directory_has_the_checkpoints_of_the_log_dir_around_it(monkeypatch):
    root = golden.shared("clean-3.9.1") / "data"
    of_log_dir = by_name(one(scan([root])))["tiny.segments-0"]
    log_dir = one(scan([root / "tiny.segments-0"]))
    assert (log_dir.path, log_dir.is_clean) == (str(root), True)
    assert log_dir.partitions == (of_log_dir,)
    assert of_log_dir.recovery_point == 80
    monkeypatch.chdir(root / "tiny.segments-0")
    (partition,) = one(scan(["."])).partitions
    assert (partition.path, partition.topic, partition.recovery_point) == (".", "tiny.segments", 80)
    monkeypatch.chdir(root)
    both = one(scan(["./tiny.segments-0", "codecs-1"]))
    assert [str(each.name) for each in both.partitions] == ["codecs-1", "tiny.segments-0"]


def test_a_file_brings_its_segment_and_no_more():
    root = golden.shared("clean-3.9.1") / "data"
    log_dir = one(scan([root / "tiny.segments-0" / f"{6:020d}.index"]))
    (partition,) = log_dir.partitions
    assert {Path(file.path).suffix for file in partition.files} >= {".log", ".index", ".timeindex"}
    assert {file.name.offset for file in partition.files} == {6}
    assert log_dir.files == ()
    alone = one(scan([root / "meta.properties"]))
    assert [Path(file.path).name for file in alone.files] == ["meta.properties"]
    assert alone.partitions == ()


def test_several_files_bring_their_segments():
    root = golden.shared("clean-3.9.1") / "data"
    logs = [root / "tiny.segments-0" / f"{offset:020d}.log" for offset in (6, 12)]
    small = [root / "meta.properties", root / "recovery-point-offset-checkpoint"]
    log_dir = one(scan([*logs, *small]))
    (partition,) = log_dir.partitions
    assert [each.base_offset for each in partition.segments] == [6, 12]
    assert {file.path for file in log_dir.files} == {str(path) for path in small}
    directory = root / "tiny.segments-0"
    everything = one(scan([directory])).partitions
    assert one(scan([directory, logs[0]])).partitions == everything
    assert one(scan([logs[0], directory])).partitions == everything


def test_partitions_that_somebody_copied_somewhere_are_a_log_dir_that_says_little(tmp_path):
    source = golden.shared("clean-3.9.1") / "data"
    shutil.copytree(source / "codecs-0", tmp_path / "evidence" / "codecs-0")
    shutil.copytree(source / "codecs-1", tmp_path / "evidence" / "renamed by hand")
    log_dir = one(scan([tmp_path / "evidence" / "codecs-0"]))
    assert log_dir.is_clean is None
    assert {each.state for each in log_dir.checkpoints.values()} == {CheckpointState.MISSING}
    (unnamed,) = one(scan([tmp_path / "evidence" / "renamed by hand"])).partitions
    assert (unnamed.partition, len(unnamed.segments)) == (None, 1)


def test_a_directory_at_which_no_broker_starts_is_told(tmp_path):
    touch(tmp_path, ".lock", "lost+found/#123", "remote-log-index-cache/x", "t-0/dir/file")
    inventory = scan([tmp_path])
    log_dir = one(inventory)
    assert log_dir.unknown_directories == (str(tmp_path / "lost+found"),)
    messages = {problem.path: problem.message for problem in inventory.all_problems()}
    assert messages == {
        str(tmp_path / "lost+found"): "not a partition directory: no broker starts with it",
        str(
            tmp_path / "t-0" / "dir"
        ): "a directory inside a partition directory: Kafka creates none",
    }
    assert {Path(file.path).name for file in log_dir.strays} == {"#123", "x"}


def test_two_live_directories_of_one_partition_are_told(tmp_path):
    root = golden.unpack("cleaner-4.3.1", tmp_path)
    shutil.copytree(root / "data-2" / "moved-0", root / "data-1" / "moved-0")
    (problem,) = scan([root]).all_problems()
    assert problem[:3] == (
        str(root / "data-2" / "moved-0"),
        Trouble.MALFORMED,
        f"the same partition as {root / 'data-1' / 'moved-0'}: no broker starts with both",
    )


def test_what_is_not_there_is_told():
    (problem,) = scan(["/nowhere/at/all"]).all_problems()
    assert problem[:3] == ("/nowhere/at/all", Trouble.UNREADABLE, "No such file or directory")


def test_an_empty_directory_holds_nothing(tmp_path):
    assert scan([tmp_path]) == Inventory()
    (tmp_path / "t-0").mkdir()
    assert scan([tmp_path]) == scan([tmp_path / "t-0"]) == Inventory()
    touch(tmp_path, ".lock")  # now it is a log dir
    (partition,) = one(scan([tmp_path])).partitions
    assert (partition.topic, partition.segments, partition.files) == ("t", (), ())


def test_links_in_circles_links_to_nothing_and_pipes_are_told_and_do_no_harm(tmp_path):
    touch(tmp_path, f"t-0/{0:020d}.log")
    (tmp_path / "t-0" / "back").symlink_to(tmp_path)
    (tmp_path / "t-0" / f"{1:020d}.log").symlink_to(tmp_path / "gone")
    (tmp_path / "t-0" / f"{2:020d}.log").symlink_to(tmp_path / "t-0" / f"{2:020d}.log")
    os.mkfifo(tmp_path / "t-0" / f"{3:020d}.log")
    inventory = scan([tmp_path])
    (partition,) = one(inventory).partitions
    assert [segment.base_offset for segment in partition.segments] == [0]
    messages = {Path(problem.path).name: problem.message for problem in inventory.all_problems()}
    circle = f"{2:020d}.log"
    assert messages == {
        "back": "a directory inside a partition directory: Kafka creates none",
        f"{1:020d}.log": f"{1:020d}.log -> {tmp_path / 'gone'}: a link to nothing",
        circle: f"{circle} -> {tmp_path / 't-0' / circle}: a link in a circle",
        f"{3:020d}.log": "found a named pipe, expected a regular file",
    }


def test_parents_that_link_to_each_other_are_walked_once(tmp_path):
    touch(tmp_path, f"x/y/data/t-0/{0:020d}.log", "x/y/data/.lock")
    (tmp_path / "x" / "y" / "up").symlink_to(tmp_path)
    assert one(scan([tmp_path])).path == str(tmp_path / "x" / "y" / "data")


def test_a_partition_that_is_a_link_is_followed_as_kafka_follows_it(tmp_path):
    touch(tmp_path, f"disk/t-0/{0:020d}.log", "data/.lock")
    (tmp_path / "data" / "t-0").symlink_to(tmp_path / "disk" / "t-0")
    (partition,) = one(scan([tmp_path / "data"])).partitions
    assert len(partition.segments) == 1


def test_files_that_vanish_while_they_are_listed_are_told(tmp_path, monkeypatch):
    touch(tmp_path, f"t-0/{0:020d}.log", f"t-0/{5:020d}.log", ".lock")
    gone = tmp_path / "t-0" / f"{0:020d}.log"
    real = directory._entry

    def vanishing(parent, scanned):
        if scanned.name == gone.name:
            gone.unlink()
        return real(parent, scanned)

    monkeypatch.setattr(directory, "_entry", vanishing)
    inventory = scan([tmp_path])
    assert reported(inventory) == [(str(gone), Trouble.UNREADABLE, "vanished while it was listed")]
    (partition,) = one(inventory).partitions
    assert [segment.base_offset for segment in partition.segments] == [5]


def test_small_files_that_vanish_before_they_are_read_are_told(tmp_path, monkeypatch):
    touch(tmp_path, "meta.properties", f"t-0/{0:020d}.log")
    real = directory.list_directory

    def vanishing(path):
        listing = real(path)
        (tmp_path / "meta.properties").unlink(missing_ok=True)
        return listing

    monkeypatch.setattr("kafka_log.inventory.scan.list_directory", vanishing)
    inventory = scan([tmp_path])
    path = str(tmp_path / "meta.properties")
    assert reported(inventory) == [(path, Trouble.UNREADABLE, "No such file or directory")]


@pytest.fixture
def open_path():
    """A scratch directory that others may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        yield Path(scratch)


def test_what_may_not_be_read_is_told_and_the_rest_is_there(open_path):
    root = golden.unpack("clean-3.9.1", open_path) / "data"
    scan([root])  # all that a scan imports is loaded: nobody may not read that either
    closed = [root / "codecs-0", root / "meta.properties", root / "__cluster_metadata-0"]
    with unreadable(*closed):
        inventory = scan([root])
        below = scan([root / "codecs-0"])
    problems = reported(inventory)
    assert {(path, trouble) for path, trouble, _ in problems} == {
        (str(path), Trouble.UNREADABLE) for path in closed
    }
    assert {message for _, _, message in problems} == {"Permission denied"}
    assert len(one(inventory).partitions) == 18
    assert by_name(one(inventory))["codecs-1"].segments != ()
    assert reported(below) == [(str(root / "codecs-0"), Trouble.UNREADABLE, "Permission denied")]


def test_brokers_are_told_apart_and_each_has_the_metadata_of_its_cluster(tmp_path):
    one_broker = golden.unpack("cleaner-4.3.1", tmp_path)
    other = golden.unpack("unclean-4.3.1", tmp_path) / "data"
    zookeeper = golden.shared("legacy-2.8.2") / "data"
    meta = other / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    inventory = scan([one_broker, other, zookeeper])
    first, second, third = inventory.brokers()
    assert (first.node_id, second.node_id, third.node_id) == (1, 2, 1)
    assert first.cluster_id == second.cluster_id == "Z29sZGVuLWRpcmVjdG9yeQ" != third.cluster_id
    assert [len(broker.log_dirs) for broker in (first, second, third)] == [2, 1, 1]
    assert first.metadata is not None
    assert second.metadata is not None
    assert "expired" in first.metadata.topic_ids
    assert "far-timestamps" in second.metadata.topic_ids
    assert third.metadata is None  # of another cluster


def test_a_broker_without_metadata_on_its_disk_takes_the_newest_of_its_cluster(tmp_path):
    root = golden.unpack("cleaner-4.3.1", tmp_path)
    meta = root / "data-2" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    _, second = scan([root]).brokers()
    assert second.node_id == 7
    assert second.metadata is not None
    assert second.metadata.end_offset == 190
    meta.unlink()
    _, nameless = scan([root]).brokers()
    assert (nameless.node_id, nameless.cluster_id) == (None, None)
    assert nameless.metadata == second.metadata


def test_whatever_bytes_small_files_and_metadata_hold_a_scan_ends_and_tells(tmp_path):
    root = golden.unpack("clean-3.9.1", tmp_path) / "data"
    rng = random.Random(11)
    victims = [
        *(path for path in sorted(root.iterdir()) if path.is_file()),
        *sorted((root / "__cluster_metadata-0").iterdir()),
        *sorted(root.glob("*/partition.metadata")),
    ]
    damaged = 0
    for _ in range(60):
        path = rng.choice(victims)
        whole = path.read_bytes()
        path.write_bytes(_mutilated(whole, rng))
        inventory = scan([root])
        assert len(one(inventory).partitions) == 18
        damaged += any(inventory.all_problems())
        path.write_bytes(whole)
    assert damaged > 20
    assert reported(scan([root])) == []


def _mutilated(whole: bytes, rng: random.Random) -> bytes:
    how = rng.randrange(4)
    at = rng.randrange(len(whole) + 1)
    if how == 0:
        return whole[:at]
    if how == 1:
        return rng.randbytes(rng.randrange(200))
    if how == 2:
        return whole[:at] + rng.randbytes(3) + whole[at:]
    return bytes(byte ^ (1 << rng.randrange(8)) if rng.random() < 0.02 else byte for byte in whole)


def test_one_log_dir_has_a_partition_twice_even_if_nobody_knows_whose_it_is(tmp_path):
    for name in ("orders-0", "orders-00", "orders-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"")
    (problem,) = scan([tmp_path]).problems
    assert problem.path == str(tmp_path / "orders-00")
    assert problem.message.startswith(f"the same partition as {tmp_path / 'orders-0'}")


def test_a_log_dir_is_whole_unless_only_parts_were_selected(tmp_path):
    shutil.copytree(golden.shared("groups-4.3.1") / "data", tmp_path / "data")
    for path, expected in (
        ("data", True),
        ("data/counts-0", False),
        ("data/meta.properties", False),
    ):
        (log_dir,) = scan([tmp_path / path]).log_dirs
        assert log_dir.is_whole == expected
