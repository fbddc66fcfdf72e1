"""Replay of metadata logs: snapshots, transactions, limits, damage; images as Kafka's own."""

import base64
import json
import random

import pytest

from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile
from kafka_format.schemas import metadata as schemas
from kafka_log.image.replay import Until, replay_metadata
from pipelines.metadata import image_rows
from tests import golden
from tests.kafka_log.image.stories import Story, framed
from tests.kafka_log.image.test_metadata_image_oracle import image_of
from tests.kafka_log.inventory.test_cluster_metadata import (
    ABORT,
    BEGIN,
    END,
    LOG,
    NO_OP,
    A,
    B,
    log,
    remove,
    topic,
)

METADATA = "__cluster_metadata-0"
TRANSACTION = (23, 24, 25)
"""The api keys of begin, end and abort, which MetadataDelta does not get. All of these ended."""


def replay(directory, **options):
    return replay_metadata(str(directory), [each.name for each in directory.iterdir()], **options)


def data_records(directory):
    """Every record of the log files, with its offset."""
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as file:
            for batch in LogFile(file, path=str(path)).batches():
                assert not isinstance(batch, LegacyBatch)
                if not batch.header.is_control:
                    yield from ((each.offset, each.value) for each in batch.iter_records())


@pytest.mark.parametrize("pack", ["clean-3.9.1", "groups-4.3.1", "unclean-4.3.1"])
def test_the_image_at_an_offset_is_kafkas(pack, oracle):
    """These logs begin at offset 0: Kafka replays the records themselves."""
    (log_dir,) = golden.log_dirs(golden.shared(pack))
    records = [*data_records(log_dir / METADATA)]
    last = records[-1][0]
    for offset in (last // 4, last // 2, last):
        values = [value for at, value in records if at <= offset and value[1] not in TRANSACTION]
        encoded = [base64.b64encode(value).decode() for value in values]
        answer = oracle.call("replay_metadata", records=encoded)
        theirs, _ = image_of(base64.b64decode(one) for one in answer["records"])
        found = replay(log_dir / METADATA, until=Until(offset=offset))
        found.image.deleted_topics.clear()
        assert found.image == theirs
        assert found.failure is None
        assert found.end_offset == offset + 1


def test_a_snapshot_and_the_log_after_it_are_as_the_records_before(tmp_path, oracle):
    """What a broker wrote into its snapshot is the image of its log up to there."""
    for log_dir in golden.log_dirs(golden.shared("cleaner-4.3.1")):
        if (log_dir / METADATA).exists():
            found = replay(log_dir / METADATA)
            assert found.snapshot == f"{163:020d}-{1:010d}.checkpoint"
            assert found.end_offset == 190
            encoded = [
                base64.b64encode(value).decode()
                for value in snapshot_records(log_dir / METADATA / found.snapshot)
            ]
            answer = oracle.call("replay_metadata", records=encoded)
            theirs, _ = image_of(base64.b64decode(one) for one in answer["records"])
            assert replay(log_dir / METADATA, until=Until(offset=162)).image == theirs


def snapshot_records(path):
    with path.open("rb") as file:
        for batch in LogFile(file, path=str(path)).batches():
            if not batch.header.is_control:
                yield from (each.value for each in batch.iter_records())


def test_a_transaction_applies_when_it_is_ended(tmp_path):
    values = [BEGIN, topic("a", A), ABORT, BEGIN, topic("b", B), END, BEGIN, topic("c", A)]
    (tmp_path / LOG).write_bytes(log(*values))
    found = replay(tmp_path)
    assert found.image.topics == {B: "b"}
    assert (found.pending, found.end_offset) == (1, 8)
    in_the_middle = replay(tmp_path, until=Until(offset=4))
    assert (in_the_middle.image.topics, in_the_middle.pending) == ({}, 1)


def test_replay_ends_at_a_record_that_a_broker_refuses(tmp_path):
    (tmp_path / LOG).write_bytes(log(topic("a", A), remove(B), topic("b", B)))
    found = replay(tmp_path)
    assert found.image.topics == {A: "a"}
    assert found.end_offset == 1
    assert found.failure is not None
    assert (found.failure.path, found.failure.offset) == (str(tmp_path / LOG), 1)
    assert "removal of topic id" in found.failure.reason


def test_an_unknown_record_ends_replay(tmp_path):
    (tmp_path / LOG).write_bytes(log(topic("a", A), b"\x01\x63\x00"))
    found = replay(tmp_path)
    assert found.failure is not None
    assert found.failure.reason == "found api key 99 of version 0, which is unknown"


def test_damage_ends_replay_and_what_precedes_it_counts(tmp_path):
    damaged = bytearray(log(topic("a", A), topic("b", B)))
    damaged[-2] ^= 1
    (tmp_path / LOG).write_bytes(damaged)
    found = replay(tmp_path)
    assert found.image.topics == {A: "a"}
    assert found.failure is not None
    assert found.failure.path == str(tmp_path / LOG)


def test_of_two_snapshots_the_newest_at_or_before_the_limit_counts(tmp_path):
    (tmp_path / f"{3:020d}-{1:010d}.checkpoint").write_bytes(log(topic("a", A)))
    (tmp_path / f"{5:020d}-{2:010d}.checkpoint").write_bytes(log(topic("b", B)))
    (tmp_path / LOG).write_bytes(log(*[NO_OP] * 6))
    assert replay(tmp_path, until=Until(offset=3)).image.topics == {A: "a"}
    assert replay(tmp_path, until=Until(offset=4)).image.topics == {B: "b"}
    assert replay(tmp_path).committed_offset == 5


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_with_a_right_checksum_give_an_image_and_perhaps_a_failure(seed, tmp_path):
    draw = random.Random(seed)
    records = [bytearray(record) for record in Story(seed).records(60)]
    for record in draw.sample(records, 20):
        record[draw.randrange(len(record))] = draw.randrange(256)
    for skip_refused in (False, True):
        (tmp_path / LOG).write_bytes(log(*map(bytes, records)))
        found = replay(tmp_path, skip_refused=skip_refused)
        assert 0 <= found.end_offset <= len(records)
        assert (found.failure is None) == (found.end_offset == len(records))
        for row in image_rows(found):
            json.dumps(row, allow_nan=False)


def test_brokers_and_their_log_dirs(tmp_path):
    register = framed(
        schemas.REGISTER_BROKER_RECORD, 4, broker_id=1, broker_epoch=7, log_dirs=[A], fenced=True
    )
    unfence = framed(
        schemas.BROKER_REGISTRATION_CHANGE_RECORD, 2, broker_id=1, broker_epoch=7, fenced=-1
    )
    stale = framed(schemas.FENCE_BROKER_RECORD, 0, id=1, epoch=6)
    (tmp_path / LOG).write_bytes(log(register, unfence, stale))
    found = replay(tmp_path)
    broker = found.image.brokers[1]
    assert (broker.epoch, broker.is_fenced, broker.log_dirs) == (7, False, (A,))
    assert found.failure is not None
    assert found.failure.reason == "found broker 1 with epoch 6, not 7"
