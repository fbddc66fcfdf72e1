"""Settings are parsed, refused and ranked as Kafka does it: LogConfig and KafkaConfig decide."""

import dataclasses
import math
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_log.config.config_def import BROKER, SYNONYMS, TOPIC
from kafka_log.config.log_config import LogConfig
from kafka_log.config.settings import Settings, SettingsError, read_settings
from kafka_log.inventory.scan import scan
from tests import golden
from tests.kafka_log.metadata import metadata

BROKER_NAMES = [name for synonyms in SYNONYMS.values() for name in synonyms]
NUMBERS = ["0", "1", "-1", "2", "7", "1048576", "1073741824", "2147483647", "9223372036854775807"]
ODD_NUMBERS = ["", " 5 ", "+5", "-0", "007", "٣", "1e3", "5.0", "0x5", "1_000", "2147483648", "-2"]
DOUBLES = ["0", "1", "0.25", " .5 ", "1.", "1e-3", "5e-324", "0x1p-1", "1f", "0.5D", "NaN"]
ODD_DOUBLES = [
    "-0.1",
    "1.5",
    "2e7",
    "12345678.9",
    "1e22",
    "Infinity",
    "-Infinity",
    "nan",
    "1,5",
    "",
]
LISTS = ["", "delete", "compact", "compact,delete", " delete , compact ", "delete,delete"]
ODD_LISTS = ["Compact", ",", "compact,", "compact,,delete", "none", "compact delete"]
BOOLEANS = ["true", "false", " TRUE ", "False"]
ODD_BOOLEANS = ["yes", "1", "", "truee"]
CODECS = ["producer", "uncompressed", "zstd", " lz4 ", "snappy", "gzip"]
ODD_CODECS = ["none", "GZIP", ""]
TIMES = ["CreateTime", "LogAppendTime"]
ODD_TIMES = ["createtime", "NoTimestampType"]
REPLICAS = ["", "*", "0:1", "0:1, 1:2"]
ODD_REPLICAS = ["0", "0:1:2", "*,*", "a:b", "0:1,*"]


def texts_for(name: str) -> tuple[list[str], list[str]]:
    """Values that are mostly good, and values that are mostly not."""
    if name.endswith(("enable", "preallocate", "disable", "on.disable")):
        return BOOLEANS, ODD_BOOLEANS
    if name.endswith("policy"):
        return LISTS, ODD_LISTS
    if name.endswith("ratio"):
        return DOUBLES, ODD_DOUBLES
    if name.endswith("compression.type"):
        return CODECS, ODD_CODECS
    if name.endswith("timestamp.type"):
        return TIMES, ODD_TIMES
    if name.endswith("throttled.replicas"):
        return REPLICAS, ODD_REPLICAS
    return NUMBERS, ODD_NUMBERS


def all_texts_for(name: str) -> list[str]:
    good, odd = texts_for(name)
    return good + odd


def escaped(value: str) -> str:
    """As Java's properties have what is not ASCII."""
    return "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in value)


def ours(case: dict[str, dict[str, str]], tmp_path: Path) -> Settings:
    file = tmp_path / "server.properties"
    lines = [f"{name}={escaped(value)}\n" for name, value in case.get("broker", {}).items()]
    file.write_text("".join(lines))
    dynamic = {"": case.get("default", {}), "1": case.get("dynamic", {})}
    return read_settings(
        metadata=metadata(brokers=dynamic),
        node_id=1,
        config=file,
        overrides=[f"{name}={value}" for name, value in case.get("topic", {}).items()],
    )


def attempt(read: Callable[[], Settings]) -> dict[str, Any] | str:
    """The values of a topic, or why there are none."""
    try:
        return read().values("orders")
    except SettingsError as error:
        return re.sub(r"^\S*/server\.properties: ", "", str(error))


def differences(mine: dict[str, Any] | str, answer: dict[str, Any]) -> dict[str, tuple]:
    """Where ours and Kafka's differ."""
    if isinstance(mine, str) or "error" in answer:
        same = mine == answer.get("error")
        return {} if same else {"error": (mine, answer.get("error"))}
    found = {}
    for name, value in mine.items():
        plain = list(value) if isinstance(value, tuple) else value
        if isinstance(plain, float) and math.isnan(plain):
            plain = "NaN"
        if plain != answer["values"][name]:
            found[name] = (plain, answer["values"][name])
    return found


def test_every_setting_of_a_topic_is_known_with_its_default(oracle):
    (answer,) = oracle.call("parse_settings", cases=[{}])
    assert sorted(TOPIC) == oracle.call("setting_names")["topic"]
    assert differences({name: each.default for name, each in TOPIC.items()}, answer) == {}


def test_settings_of_a_broker_have_kafkas_defaults(oracle):
    defaults = oracle.call("setting_names")["broker_defaults"]
    for name, definition in BROKER.items():
        mine = definition.default
        theirs = defaults[name]
        if isinstance(mine, tuple):
            assert theirs in (list(mine), ",".join(mine)), name
        else:
            assert mine == theirs, name


def test_any_text_of_a_topic_setting_gives_kafkas_value_or_kafkas_words(oracle):
    texts = [
        (name, text)
        for name in TOPIC
        for text in {*all_texts_for(name), *NUMBERS, "x"}
        if not (name == "internal.segment.bytes" and not text.isascii())
    ]
    cases = [{"topic": {name: text}} for name, text in texts]
    refused = 0
    for (name, text), answer in zip(texts, oracle.call("parse_settings", cases=cases), strict=True):
        mine = attempt(partial(read_settings, overrides=[f"{name}={text}"]))
        refused += isinstance(mine, str)
        assert differences(mine, answer) == {}, (name, text)
    assert refused > 100


def draw(rng: random.Random) -> dict[str, dict[str, str]]:
    """A broker's file, what was altered since, and a topic's own; at most one of them is odd."""
    case: dict[str, dict[str, str]] = {}
    names = {"broker": BROKER_NAMES, "default": BROKER_NAMES, "dynamic": BROKER_NAMES}
    odd = rng.choice(["broker", "topic", "default", "dynamic", None, None])
    for part in ("broker", "default", "dynamic", "topic"):
        if part != "broker" and rng.random() < 0.3:
            continue
        pool = names.get(part, [*TOPIC])
        chosen = rng.sample(pool, rng.randint(0, 6))
        if rng.random() < 0.5 and part != "topic":  # the families with several names
            chosen += rng.sample(
                [name for name in pool if "retention" in name or "roll" in name], 2
            )
        case[part] = {name: rng.choice(_good(name)) for name in chosen}
        if part == odd and chosen:
            name = rng.choice(chosen)
            case[part][name] = rng.choice(all_texts_for(name))
    return case


def _good(name: str) -> list[str]:
    definition = TOPIC.get(name) or BROKER[name]
    good = []
    for text in texts_for(name)[0]:
        try:
            value = definition.value(text)
        except SettingsError:
            continue
        is_time = "roll" in name or "flush" in name
        if value != 0 and text != "NaN" and not (is_time and value == -1):  # refused later on
            good.append(text)
    return good


def test_300_sets_of_properties_give_kafkas_log_config(oracle, tmp_path):
    rng = random.Random(4)
    cases = [draw(rng) for _ in range(300)]
    answers = oracle.call("parse_settings", cases=cases)
    outcomes = {"values": 0, "error": 0}
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        mine = attempt(partial(ours, case, tmp_path))
        outcomes["error" if isinstance(mine, str) else "values"] += 1
        assert differences(mine, answer) == {}, (number, case)
    assert outcomes["values"] > 150
    assert outcomes["error"] > 15


def test_no_name_of_kafkas_own_is_refused_in_a_file(oracle, tmp_path):
    names = [name for name in oracle.call("setting_names")["broker"] if name not in BROKER]
    assert len(names) > 250
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}=x\n" for name in names))
    assert read_settings(config=file).for_topic("orders") == LogConfig()


def test_nothing_given_is_kafkas_default():
    assert read_settings().for_topic("orders") == LogConfig()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("retention.hours=5", "unknown setting retention.hours: did you mean log.retention.hours?"),
        ("retention.mss=5", "unknown setting retention.mss: did you mean retention.ms?"),
        ("listeners=x", "unknown setting listeners"),
        ("topic.orders.retenton.ms=5", "topic.<name>.<setting of a topic>: did you mean retent"),
        ("retention.ms", "'retention.ms': expected NAME=VALUE"),
        ("=5", "'=5': expected NAME=VALUE"),
        ("topic.orders.retention.ms=x", "Invalid value x for configuration retention.ms: Not a"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_nearest_name(override, message):
    with pytest.raises(SettingsError) as caught:
        read_settings(overrides=[override])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"\x00", "@0: found byte 0x00"),
        (b"retention.ms=1\n\x7fELF\x02\x01", "@19: found byte 0x02"),
        ("retention.ms=1\n".encode("utf-16-le"), "@1: found byte 0x00"),
    ],
)
def test_a_file_that_is_no_text_is_refused_and_named(tmp_path, content, place):
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_settings(config=path)
    assert str(caught.value) == f"{path}{place}, expected text, as in server.properties"


def test_a_file_with_letters_beyond_ascii_is_text(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("# größer\r\n\tretention.ms = 7\f\n")
    assert read_settings(config=path).for_topic("orders").retention_ms == 7


def test_a_file_with_a_mistyped_name_is_refused_and_named(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nlog.retention.hour=5\n")
    with pytest.raises(SettingsError) as caught:
        read_settings(config=file)
    assert str(caught.value) == (
        f"{file}: unknown setting log.retention.hour: did you mean log.retention.hours?"
    )


def test_who_is_nearer_to_the_topic_wins(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "log.retention.hours=1\n"
        "log.segment.bytes=1048577\n"
        "compression.type=gzip\n"
        "topic.special.one.retention.ms=111\n"
        "min.compaction.lag.ms=22\n"
    )
    found = metadata(
        topics={"own": {"retention.ms": "7", "compression.type": "lz4"}},
        brokers={"": {"log.retention.ms": "5000"}, "1": {"log.segment.bytes": "1048578"}},
    )
    settings = read_settings(metadata=found, node_id=1, config=file)
    own, other = settings.for_topic("own"), settings.for_topic("other")
    assert (own.retention_ms, own.compression_type) == (7, "lz4")
    assert (other.retention_ms, other.compression_type) == (5000, "gzip")
    assert settings.for_topic("special.one").retention_ms == 111
    assert own.segment_bytes == 1048578
    assert own.min_compaction_lag_ms == other.min_compaction_lag_ms == 22
    elsewhere = read_settings(metadata=found, node_id=2, config=file)
    assert elsewhere.for_topic("own").segment_bytes == 1048577
    given = ["retention.ms=9", "topic.own.retention.ms=8", "log.segment.bytes=1048579"]
    overridden = read_settings(metadata=found, node_id=1, config=file, overrides=given)
    assert overridden.for_topic("own").retention_ms == 8
    assert overridden.for_topic("special.one").retention_ms == 9
    assert overridden.for_topic("own").segment_bytes == 1048579


def test_a_broker_setting_does_not_beat_a_topics_own():
    found = metadata(topics={"own": {"retention.ms": "7"}})
    settings = read_settings(metadata=found, overrides=["log.retention.ms=9"])
    assert settings.for_topic("own").retention_ms == 7
    assert settings.for_topic("other").retention_ms == 9


def test_segments_can_be_tiny_for_tests_and_in_evidence_of_older_brokers():
    with pytest.raises(SettingsError, match="Value must be at least 1048576"):
        read_settings(overrides=["segment.bytes=400"])
    tiny = read_settings(overrides=["internal.segment.bytes=400"]).for_topic("orders")
    assert tiny.segment_bytes == 400
    old = read_settings(metadata=metadata(topics={"orders": {"segment.bytes": "400"}}))
    assert old.for_topic("orders").segment_bytes == 400


def test_settings_that_kafka_no_longer_has_are_skipped_in_metadata_alone():
    old = metadata(topics={"orders": {"message.format.version": "2.8", "retention.ms": "5"}})
    assert read_settings(metadata=old).for_topic("orders").retention_ms == 5
    with pytest.raises(SettingsError, match=r"unknown setting message\.format\.version"):
        read_settings(overrides=["message.format.version=2.8"])


def test_internal_topics_without_metadata_are_what_brokers_make_them(tmp_path):
    settings = read_settings()
    offsets = settings.for_topic("__consumer_offsets")
    assert offsets.cleanup_policy == {"compact"}
    assert offsets.segment_bytes == 100 * 1024 * 1024
    assert settings.for_topic("__transaction_state").compression_type == "uncompressed"
    share = settings.for_topic("__share_group_state")
    assert (share.cleanup_policy, share.retention_ms) == (frozenset({"delete"}), -1)
    file = tmp_path / "server.properties"
    file.write_text("offsets.topic.segment.bytes=1500\n")
    assert read_settings(config=file).for_topic("__consumer_offsets").segment_bytes == 1500


def test_the_metadata_log_listens_to_its_own_settings_alone(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.retention.ms=5\nmetadata.log.segment.ms=5000\nlog.roll.ms=7\n")
    settings = read_settings(config=file, overrides=["retention.ms=1", "cleanup.policy=compact"])
    config = settings.for_topic("__cluster_metadata")
    assert (config.retention_ms, config.retention_bytes, config.segment_ms) == (-1, -1, 5000)
    assert config.max_message_bytes == 8 * 1024 * 1024
    assert config.cleanup_policy == {"delete"}


def test_producers_and_transactions_have_settings_of_the_broker():
    config = read_settings(
        overrides=["producer.id.expiration.ms=5000", "transaction.max.timeout.ms=60000"]
    ).for_topic("orders")
    assert config.producer_id_expiration_ms == 5000
    assert config.max_transaction_timeout_ms == 60000


def test_every_field_of_log_config_can_be_set():
    fields = {field.name for field in dataclasses.fields(LogConfig)}
    settable = {name.replace(".", "_") for name in TOPIC} | {
        "max_transaction_timeout_ms",
        "producer_id_expiration_ms",
        "transaction_partition_verification_enable",
    }
    assert fields <= settable


@pytest.mark.parametrize(
    ("pack", "topic", "expected"),
    [  # literals: what tests/golden/make/scenarios gave these topics
        ("clean-3.9.1", "tiny.segments", {"segment_bytes": 400}),
        ("clean-3.9.1", "tiny-indexed", {"segment_bytes": 4000, "index_interval_bytes": 1}),
        ("clean-3.9.1", "compacted", {"segment_bytes": 400, "cleanup_policy": {"compact"}}),
        (
            "clean-3.9.1",
            "__consumer_offsets",
            {"segment_bytes": 1500, "cleanup_policy": {"compact"}},
        ),
        ("cleaner-4.3.1", "compacted.no-retention", {"delete_retention_ms": 0}),
        ("cleaner-4.3.1", "expired", {"retention_ms": 3_600_000}),
        ("cleaner-4.3.1", "compacted.append-time", {"message_timestamp_type": "LogAppendTime"}),
        ("unclean-4.3.1", "far-timestamps", {"message_timestamp_after_max_ms": 2**63 - 1}),
        ("unclean-4.3.1", "rolled-by.time", {"segment_ms": 3_600_000}),
        ("unclean-4.3.1", "index-default", {"segment_index_bytes": 10 * 1024 * 1024}),
        ("unclean-3.9.1", "rolled", {"segment_bytes": 1000}),
    ],
)
def test_topic_settings_come_from_the_metadata_in_the_log_dir(pack, topic, expected):
    inventory = scan([golden.shared(pack)])
    settings = read_settings(metadata=inventory.metadata, node_id=inventory.node_id)
    config = settings.for_topic(topic)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize("pack", ["clean-3.9.1", "cleaner-4.3.1", "unclean-4.3.1"])
def test_a_real_brokers_settings_are_read_with_its_metadata(pack, tmp_path):
    text = golden.manifest(pack).split("```properties\n")[1].split("```")[0]
    file = tmp_path / "server.properties"
    file.write_text(text)
    inventory = scan([golden.shared(pack)])
    settings = read_settings(metadata=inventory.metadata, node_id=1, config=file)
    config = settings.for_topic("transactions")
    assert config.retention_ms == -1
    assert config.file_delete_delay_ms == 3_600_000
    assert config.segment_index_bytes == 65536


def test_names_in_the_page_are_settings_or_meant_to_be_refused():
    page = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    given = re.findall(r"--set ([a-z.]+)=(\d+)", page)
    assert len(given) > 4
    for name, value in given:
        read_settings(overrides=[f"{name}={value}"])
    names = {name for name in re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", page) if "<" not in name}
    unknown = {name for name in names if name not in TOPIC and name not in BROKER}
    assert unknown == {"server.properties", "message.format.version", "node.id"}
