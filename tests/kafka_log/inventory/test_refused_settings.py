"""Settings in the cluster metadata that Kafka refuses: reported, and not used."""

import time

import pytest

from kafka_log.config.settings import read_settings
from kafka_log.inventory.cluster_metadata import ClusterMetadata
from kafka_log.inventory.refused_settings import without_refused_settings
from tests.kafka_log.metadata import metadata

BUFFER = "log.cleaner.dedupe.buffer.size"
FACTOR = "log.cleaner.io.buffer.load.factor"


def refused(found: ClusterMetadata) -> list[str]:
    return [each.text for each in found.refused]


def test_metadata_that_kafka_accepts_is_left_as_it_is():
    sound = metadata({"a": {"retention.ms": "5", "gone.in.4.0": "x"}}, {"1": {BUFFER: "9999"}})
    assert without_refused_settings(sound) is sound


def test_the_default_stands_in_for_a_topics_setting_and_its_others_stay():
    bad = {"bad": {"retention.ms": "abc", "segment.ms": "7"}, "good": {"retention.ms": "5"}}
    found = without_refused_settings(metadata(bad, {"": {"log.retention.ms": "9"}}))
    assert refused(found) == ["topic bad: retention.ms=abc"]
    assert "Not a number of type LONG" in found.refused[0].reason
    settings = read_settings(metadata=found)
    configs = [settings.for_topic(topic) for topic in ("bad", "good")]
    assert [(each.retention_ms, each.segment_ms) for each in configs] == [(9, 7), (5, 604_800_000)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleaner.threads", "0"),
        ("log.cleaner.threads", "2147483647"),
        (FACTOR, "NaN"),
        (FACTOR, "0"),
        (FACTOR, "-1e308"),
        (BUFFER, "-1"),
        ("log.cleaner.io.buffer.size", "1"),
        ("log.flush.interval.ms", "-1"),  # a broker takes it, its topics do not
        ("log.roll.ms", "0"),
        ("log.retention.bytes", "many"),
    ],
)
@pytest.mark.parametrize("broker", ["", "1"])
def test_the_default_stands_in_for_a_brokers_setting(name, value, broker):
    found = without_refused_settings(
        metadata({"a": {}}, {broker: {name: value, "message.max.bytes": "7"}})
    )
    assert refused(found) == [f"{'broker 1' if broker else 'all brokers'}: {name}={value}"]
    settings = read_settings(metadata=found, node_id=1)
    assert settings.broker[name] == read_settings().broker[name]
    assert settings.for_topic("a").max_message_bytes == 7


@pytest.mark.parametrize(
    ("topics", "brokers", "expected"),
    [
        (
            {"a": {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}},
            {},
            ["topic a: min.compaction.lag.ms=9", "topic a: max.compaction.lag.ms=5"],
        ),
        (
            {"a": {"min.compaction.lag.ms": "9"}},
            {"1": {"log.cleaner.max.compaction.lag.ms": "5"}},
            ["topic a: min.compaction.lag.ms=9"],
        ),
        (
            {"a": {}},
            {"": {"log.cleaner.threads": "1000"}, "1": {BUFFER: "9999"}},
            [f"broker 1: {BUFFER}=9999"],
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(topics, brokers, expected):
    found = without_refused_settings(metadata(topics, brokers))
    assert refused(found) == expected
    read_settings(metadata=found, node_id=1).for_topic("a")


@pytest.mark.parametrize(
    "name", ["min.cleanable.dirty.ratio", "cleanup.policy", "retention.ms", "compression.type"]
)
@pytest.mark.parametrize("letter", ["1", " ", "a", ","])
def test_a_value_of_a_mebibyte_is_judged_at_once_and_shown_shortened(name, letter):
    value = f"x{letter * 2**20}x" if letter == " " else f"{letter * 2**20}x"
    start = time.process_time()
    (found,) = refused(without_refused_settings(metadata({"a": {name: value}})))
    assert time.process_time() - start < 5
    assert len(found) < 200
