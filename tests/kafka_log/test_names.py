import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import CorruptError
from kafka_log.names import (
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileName,
    FileState,
    is_valid_topic,
    metadata_snapshot_name,
    parse_directory_name,
    parse_file_name,
    parse_partition_directory_name,
    partition_directory_name,
    remote_index_name,
    segment_file_name,
    topic_problem,
)

HEX = "a960e13f7a394497b8b68f6eed715dbe"
UNIQUE_ID = uuid.UUID(HEX)
SEGMENT_ID = uuid.UUID("0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b")  # CsoLUxvPT4eqqZoF0nCfGw


@pytest.mark.parametrize(
    ("name", "kind", "offset", "state"),
    [
        ("00000000000000000000.log", FileKind.LOG, 0, FileState.LIVE),
        ("00000000000000000042.index", FileKind.OFFSET_INDEX, 42, FileState.LIVE),
        ("00000000000000000042.timeindex", FileKind.TIME_INDEX, 42, FileState.LIVE),
        ("00000000000000000042.txnindex", FileKind.TRANSACTION_INDEX, 42, FileState.LIVE),
        ("00000000000000000042.snapshot", FileKind.PRODUCER_SNAPSHOT, 42, FileState.LIVE),
        ("09223372036854775807.log", FileKind.LOG, 2**63 - 1, FileState.LIVE),
        ("00000000000000000042.log.deleted", FileKind.LOG, 42, FileState.DELETED),
        ("00000000000000000042.index.cleaned", FileKind.OFFSET_INDEX, 42, FileState.CLEANED),
        ("00000000000000000042.timeindex.swap", FileKind.TIME_INDEX, 42, FileState.SWAP),
        ("00000000000000000042.txnindex.swap", FileKind.TRANSACTION_INDEX, 42, FileState.SWAP),
        (
            "00000000000000000042.snapshot.deleted",
            FileKind.PRODUCER_SNAPSHOT,
            42,
            FileState.DELETED,
        ),
        ("00000000000000000042.snapshot.tmp", FileKind.PRODUCER_SNAPSHOT, 42, FileState.TEMPORARY),
    ],
)
def test_files_of_a_segment_have_kind_offset_and_state(name, kind, offset, state):
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.offset, parsed.state) == (kind, offset, state)
    assert parsed.is_canonical
    assert str(parsed) == name
    assert segment_file_name(offset, kind, state) == parsed


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("5.log", 5),
        ("0000000000000000000000000005.log", 5),
        ("+5.log", 5),
        ("-5.log", -5),
        ("5.x.log", 5),
        ("00000000000000000005.x.log", 5),
        ("00000000000000000005.log.log", 5),
        ("\u0660" * 19 + "\u0665.log", 5),  # a broker in an Arabic locale writes this
    ],
)
def test_whatever_java_reads_before_the_first_dot_is_an_offset(name, offset):
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.offset) == (FileKind.LOG, offset)
    assert not parsed.is_canonical
    assert str(parsed) == name


def test_a_negative_offset_has_20_digits_and_a_minus():
    assert str(segment_file_name(-5, FileKind.LOG)) == "-00000000000000000005.log"
    assert parse_file_name("-00000000000000000005.log").is_canonical


@pytest.mark.parametrize(
    ("name", "offset", "epoch", "state"),
    [
        ("00000000000000000018-0000000001.checkpoint", 18, 1, FileState.LIVE),
        ("00000000000000000000-0000000000.checkpoint", 0, 0, FileState.LIVE),
        ("00000000000000000018-2147483647.checkpoint.deleted", 18, 2**31 - 1, FileState.DELETED),
        ("00000000000000000018-0000000001-123.checkpoint.part", 18, 1, FileState.PARTIAL),
    ],
)
def test_metadata_snapshots_have_offset_and_epoch(name, offset, epoch, state):
    parsed = parse_file_name(name)
    assert parsed.kind is FileKind.METADATA_SNAPSHOT
    assert (parsed.offset, parsed.epoch, parsed.state) == (offset, epoch, state)
    assert parsed.is_canonical
    assert str(parsed) == name
    random = "123" if state is FileState.PARTIAL else ""
    assert metadata_snapshot_name(offset, epoch, state, random=random) == parsed


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000018_0000000001.checkpoint",
        "00000000000000000018-0000000001-x.checkpoint",
        "00000000000000000018-0000000001.checkpoint.part",
    ],
)
def test_snapshot_names_that_kafka_reads_but_does_not_write(name):
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.offset, parsed.epoch) == (FileKind.METADATA_SNAPSHOT, 18, 1)
    assert not parsed.is_canonical
    assert str(parsed) == name


@pytest.mark.parametrize(
    ("name", "kind", "state"),
    [
        ("45_CsoLUxvPT4eqqZoF0nCfGw.index", FileKind.REMOTE_OFFSET_INDEX, FileState.LIVE),
        ("45_CsoLUxvPT4eqqZoF0nCfGw.timeindex", FileKind.REMOTE_TIME_INDEX, FileState.LIVE),
        ("45_CsoLUxvPT4eqqZoF0nCfGw.txnindex", FileKind.REMOTE_TRANSACTION_INDEX, FileState.LIVE),
        ("45_CsoLUxvPT4eqqZoF0nCfGw.index.tmp", FileKind.REMOTE_OFFSET_INDEX, FileState.TEMPORARY),
        (
            "45_CsoLUxvPT4eqqZoF0nCfGw.index.deleted",
            FileKind.REMOTE_OFFSET_INDEX,
            FileState.DELETED,
        ),
    ],
)
def test_the_remote_index_cache_has_names_of_its_own(name, kind, state):
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.offset, parsed.state) == (kind, 45, state)
    assert parsed.remote_segment_id == SEGMENT_ID
    assert parsed.is_canonical
    assert str(parsed) == name
    assert remote_index_name(45, SEGMENT_ID, kind, state) == parsed


def test_a_segment_id_may_hold_dashes_and_underscores():
    parsed = parse_file_name("45__-_-_-_-_-_-_-_-_-_-_w.index")
    assert parsed.remote_segment_id is not None
    assert (parsed.offset, parsed.is_canonical) == (45, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCH_CHECKPOINT),
        ("partition.metadata", FileKind.PARTITION_METADATA),
        ("quorum-state", FileKind.QUORUM_STATE),
        ("recovery-point-offset-checkpoint", FileKind.RECOVERY_POINT_CHECKPOINT),
        ("log-start-offset-checkpoint", FileKind.LOG_START_OFFSET_CHECKPOINT),
        ("cleaner-offset-checkpoint", FileKind.CLEANER_OFFSET_CHECKPOINT),
        ("replication-offset-checkpoint", FileKind.REPLICATION_OFFSET_CHECKPOINT),
        ("meta.properties", FileKind.META_PROPERTIES),
        ("bootstrap.checkpoint", FileKind.BOOTSTRAP_CHECKPOINT),
    ],
)
def test_files_of_one_name_may_have_left_a_temporary(name, kind):
    assert parse_file_name(name) == FileName(kind)
    assert parse_file_name(f"{name}.tmp") == FileName(kind, state=FileState.TEMPORARY)
    assert str(parse_file_name(f"{name}.tmp")) == f"{name}.tmp"
    assert parse_file_name(name).is_canonical
    assert (parse_file_name(name).offset, parse_file_name(name).epoch) == (None, None)
    assert parse_file_name(name).remote_segment_id is None


@pytest.mark.parametrize(
    ("name", "kind"), [(".lock", FileKind.LOCK), (".kafka_cleanshutdown", FileKind.CLEAN_SHUTDOWN)]
)
def test_files_that_are_written_in_place_leave_none(name, kind):
    assert parse_file_name(name) == FileName(kind)
    assert parse_file_name(f"{name}.tmp").kind is FileKind.UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        ".log",
        "log",
        "x.log",
        "00000000000000000042",
        "00000000000000000042.LOG",
        "00000000000000000042.log.bak",
        "00000000000000000042.log.tmp",
        "00000000000000000042.log.deleted.deleted",
        "00000000000000000042.snapshot.cleaned",
        "00000000000000000042.log.part",
        "9223372036854775808.log",
        " 42.log",
        "1_0.log",
        "42_tooshort.index",
        "x_CsoLUxvPT4eqqZoF0nCfGw.index",
        "18-1.checkpoint",
        "00000000000000000018-12.checkpoint",
        "00000000000000000018-x000000001.checkpoint",
        "00000000000000000018-0000000001.checkpoint.tmp",
        "bootstrap.checkpoint.deleted",
        ".deleted",
        "core.1234",
        "\udcff.log",
    ],
)
def test_other_names_are_unknown_and_kept(name):
    parsed = parse_file_name(name)
    assert parsed == FileName(FileKind.UNKNOWN, name)
    assert (str(parsed), parsed.offset, parsed.is_canonical) == (name, None, False)


def test_what_kafka_does_not_write_is_not_built():
    with pytest.raises(ValueError, match=re.escape("FileKind.LOCK")):
        segment_file_name(0, FileKind.LOCK)
    with pytest.raises(ValueError, match=re.escape("FileState.TEMPORARY")):
        segment_file_name(0, FileKind.LOG, FileState.TEMPORARY)
    with pytest.raises(ValueError, match="random"):
        metadata_snapshot_name(0, 0, FileState.PARTIAL)
    with pytest.raises(ValueError, match="random"):
        metadata_snapshot_name(0, 0, random="1")
    with pytest.raises(ValueError, match=re.escape("FileState.SWAP")):
        metadata_snapshot_name(0, 0, FileState.SWAP)
    with pytest.raises(ValueError, match=re.escape("FileKind.LOG")):
        remote_index_name(0, SEGMENT_ID, FileKind.LOG)
    with pytest.raises(ValueError, match=re.escape("DirectoryKind.DELETE")):
        partition_directory_name("a", 0, DirectoryKind.DELETE)
    with pytest.raises(ValueError, match=HEX[:8]):
        partition_directory_name("a", 0, unique_id=UNIQUE_ID)


# ---------------------------------------------------------------------------------- directories


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("orders-0-0", "orders-0", 0),
        ("a.b-c_d-12", "a.b-c_d", 12),
        ("--5", "-", 5),
        ("a.b-delete-0", "a.b-delete", 0),
        (f"a-0.{HEX}-delete-3", f"a-0.{HEX}-delete", 3),
        ("audit-future-0", "audit-future", 0),
        ("__cluster_metadata-0", "__cluster_metadata", 0),
        ("remote-log-index-cache-0", "remote-log-index-cache", 0),
        ("...-1", "...", 1),
        ("t-2147483647", "t", 2147483647),
    ],
)
def test_a_live_directory_ends_in_its_partition_whatever_its_topic(name, topic, partition):
    parsed = parse_partition_directory_name(name)
    assert (parsed.kind, parsed.topic, parsed.partition) == (
        DirectoryKind.PARTITION,
        topic,
        partition,
    )
    assert parsed.is_canonical
    assert str(parsed) == name
    assert partition_directory_name(topic, partition) == parsed


@pytest.mark.parametrize("kind", [DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY])
@pytest.mark.parametrize(
    "topic", ["orders", "a.b-delete", f"a-0.{HEX}-delete", "x-1.y", "-", "..."]
)
def test_suffix_last_dot_and_last_dash_part_a_directory(kind, topic):
    name = f"{topic}-7.{HEX}{kind.value}"
    parsed = parse_partition_directory_name(name)
    assert parsed == DirectoryName(kind, topic, "7", HEX)
    assert (parsed.partition, parsed.is_canonical, parsed.topic_may_be_cut) == (7, True, False)
    assert str(parsed) == name
    assert partition_directory_name(topic, 7, kind, unique_id=UNIQUE_ID) == parsed


def test_a_long_topic_is_cut_in_delete_and_stray_names_but_not_in_future_ones():
    topic = "t" * 249
    delete = partition_directory_name(topic, 12, DirectoryKind.DELETE, unique_id=UNIQUE_ID)
    assert str(delete) == f"{'t' * 212}-12.{HEX}-delete"
    assert len(str(delete)) == 255
    stray = partition_directory_name(topic, 12, DirectoryKind.STRAY, unique_id=UNIQUE_ID)
    assert str(stray) == f"{'t' * 213}-12.{HEX}-stray"
    future = partition_directory_name(topic, 12, DirectoryKind.FUTURE, unique_id=UNIQUE_ID)
    assert str(future) == f"{topic}-12.{HEX}-future"
    cut = [parse_directory_name(str(name)).topic_may_be_cut for name in (delete, stray, future)]
    assert cut == [True, True, False]


def test_a_topic_that_just_fits_may_look_cut():
    name = partition_directory_name("t" * 213, 1, DirectoryKind.DELETE, unique_id=UNIQUE_ID)
    assert (len(str(name)), name.topic) == (255, "t" * 213)
    assert name.topic_may_be_cut


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-007", 7),
        ("t-+7", 7),
        ("t-\u0667", 7),
        ("t t-7", 7),
        (f"t-7.{HEX.upper()}-delete", 7),
        ("t-7.x-stray", 7),
        ("t-7.a b-c.d-0", 0),
    ],
)
def test_names_that_kafka_loads_but_does_not_make(name, partition):
    parsed = parse_partition_directory_name(name)
    assert parsed.partition == partition
    assert not parsed.is_canonical
    assert str(parsed) == name


@pytest.mark.parametrize(
    ("name", "position", "found"),
    [
        ("", 0, "no dash"),
        ("orders", 0, "no dash"),
        ("-0", 0, "an empty topic"),
        ("-", 0, "an empty topic"),
        ("orders-", 7, "partition ''"),
        ("orders-x", 7, "partition 'x'"),
        ("orders-2147483648", 7, "partition '2147483648'"),
        ("orders-0 ", 7, "partition '0 '"),
        ("orders-delete", 6, "-delete"),
        ("orders-0-delete", 8, "-delete"),
        ("orders-0.-delete", 9, "-delete"),
        ("orders.x-delete", 8, "-delete"),
        ("-future", 0, "-future"),
        ("a-.x-stray", 4, "-stray"),
        ("-0.x-stray", 4, "-stray"),
        ("a b-0.x-delete", 7, "-delete"),
        ("orders-x.y-delete", 7, "partition 'x'"),
        ("a-1.b.-delete", 2, "partition '1.b'"),
        ("__cluster_metadata-0.tmp", 19, "partition '0.tmp'"),
    ],
)
def test_other_directories_stop_a_broker_and_are_located(name, position, found):
    with pytest.raises(CorruptError) as caught:
        parse_partition_directory_name(name)
    assert caught.value.location == (name, position)
    assert caught.value.found == found
    parsed = parse_directory_name(name)
    assert parsed == DirectoryName(DirectoryKind.UNKNOWN, name)
    assert (str(parsed), parsed.partition, parsed.is_canonical) == (name, None, False)


def test_the_remote_index_cache_is_a_directory_of_its_own():
    parsed = parse_directory_name("remote-log-index-cache")
    assert parsed == DirectoryName(DirectoryKind.REMOTE_LOG_INDEX_CACHE)
    assert (str(parsed), parsed.is_canonical) == ("remote-log-index-cache", True)


@pytest.mark.parametrize("topic", ["a", "A.b_c-9", "...", "-", "_", "t" * 249])
def test_valid_topics(topic):
    assert is_valid_topic(topic)


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("", "the name is empty"),
        (".", "the name is a relative path"),
        ("..", "the name is a relative path"),
        ("t" * 250, "250 characters are more than 249"),
        ("a b", "' ' is not one of a-z A-Z 0-9 . _ -"),
        ("a/b", "'/' is not one of a-z A-Z 0-9 . _ -"),
        ("ä", "'ä' is not one of a-z A-Z 0-9 . _ -"),
        ("a\n", "'\\n' is not one of a-z A-Z 0-9 . _ -"),
    ],
)
def test_invalid_topics(topic, problem):
    assert topic_problem(topic) == problem


names = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            "0 7 - . _ a log index deleted swap checkpoint part delete future stray snapshot tmp "
            f"{HEX} 00000000000000000018".split(" ")
        )
    ).map("".join),
)


@given(names)
def test_any_name_comes_back(name):
    assert str(parse_file_name(name)) == name
    assert str(parse_directory_name(name)) == name
    parse_file_name(name).is_canonical  # noqa: B018  # a property that must not raise
    parse_directory_name(name).is_canonical  # noqa: B018


@given(
    st.from_regex(r"[a-zA-Z0-9._-]{1,200}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.sampled_from([DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY]),
    st.uuids(),
)
def test_any_partition_directory_comes_back(topic, partition, kind, unique_id):
    live = partition_directory_name(topic, partition)
    assert parse_partition_directory_name(str(live)) == live
    suffixed = partition_directory_name(topic, partition, kind, unique_id=unique_id)
    assert parse_partition_directory_name(str(suffixed)) == suffixed
    assert suffixed.partition == partition


KAFKAS_PATTERN = re.compile(r"(\S+)-(\S+)\.(\S+)-delete", re.ASCII)


@given(st.text(alphabet="a-. 0", max_size=12).map(lambda body: f"{body}-delete"))
def test_the_pattern_by_hand_matches_what_kafkas_matches(name):
    loads = bool(KAFKAS_PATTERN.fullmatch(name)) and bool(
        re.fullmatch(r".+-[+]?0+", name.removesuffix("-delete").rpartition(".")[0], re.DOTALL)
    )
    assert (parse_directory_name(name).kind is DirectoryKind.DELETE) == loads


def test_a_name_of_a_megabyte_takes_no_time():
    assert parse_directory_name("a-." * 300_000 + "-delete").kind is DirectoryKind.UNKNOWN
