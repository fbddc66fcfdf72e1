"""Read the settings of every topic's log under Kafka's names, and return them as LogConfig.

    read_settings(metadata=…, node_id=1, config="server.properties", overrides=["retention.ms=1"])
        .for_topic("orders") -> LogConfig

The sources, in order of precedence: as in Kafka, settings of the topic before those of its broker.

    topic     --set topic.<name>.<setting>=…   --set <setting>=…
              --config: topic.<name>.<setting>=…, <setting>=…
              KRaft metadata: settings of the topic
              without metadata, what Kafka creates its internal topics with
    broker    --set log.<…>=…
              KRaft metadata: settings of this broker, of all brokers
              --config: log.<…>=…, as in a broker's server.properties
    default   Kafka's

If a source has one of several names for a setting (log.retention.hours, .minutes, .ms), all of them
are ignored in the sources after it; within a source the finer unit wins. A setting with the same
name for topics and brokers (compression.type) is a broker's in a file, and a topic's in --set.

Other settings in a file (listeners, …) are ignored; a name that is almost one of these is rejected
as a typo. `__cluster_metadata` uses only settings for this topic, as in KafkaRaftLog.

Mirrors LogConfig, KafkaConfig.extractLogConfigMap and DynamicBrokerConfig; the values are parsed by
config_def.py.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kafka_format.properties_file import read_properties
from kafka_log.config.config_def import (
    BROKER,
    SYNONYMS,
    TOPIC,
    SettingsError,
    Value,
    topic_defaults,
)
from kafka_log.config.log_config import LogConfig
from kafka_log.inventory.cluster_metadata import CLUSTER_DEFAULT, ClusterMetadata
from kafka_log.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Settings",
    "SettingsError",
    "ensure_broker_settings",
    "ensure_topic_settings",
    "read_settings",
]

_TOPIC_PREFIX = "topic."
_ALL = {**TOPIC, **BROKER}
_TYPO_SIMILARITY = 0.88  # no other name of a Kafka setting is this similar to one of these
_NO_TEXT = re.compile(rb"[^\t\n\f\r\x20-\xff]")
_MAX_METADATA_BATCH = 8 * 1024 * 1024
_MIN_SEGMENT_BYTES_BEFORE_4_0 = 14
_MAP_ENTRY = 24  # bytes per key in the cleaner's offset map: an MD5 and an offset
_HIDDEN = {
    synonym: synonyms
    for synonyms in SYNONYMS.values()
    for synonym in synonyms
    # The flush scheduler's interval is another setting, which only serves as a default.
    if synonym != "log.flush.scheduler.interval.ms"
}
_DYNAMIC = frozenset(
    {
        *(synonyms[0] for synonyms in SYNONYMS.values()),
        *(name for name in BROKER if name.startswith("log.cleaner.")),
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    }
) - {"log.cleaner.enable"}
"""Settings that can be changed while a broker runs."""
_FIELDS = {field.name.replace("_", "."): field.name for field in fields(LogConfig)}
_BROKER_FIELDS = {
    "transaction.max.timeout.ms": "max_transaction_timeout_ms",
    "producer.id.expiration.ms": "producer_id_expiration_ms",
    "transaction.partition.verification.enable": "transaction_partition_verification_enable",
}
_INTERNAL = {
    "__consumer_offsets": (
        "offsets.topic.segment.bytes",
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    "__transaction_state": (
        "transaction.state.log.segment.bytes",
        {"cleanup.policy": "compact", "compression.type": "uncompressed"},
    ),
    "__share_group_state": (
        "share.coordinator.state.topic.segment.bytes",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}
"""The settings with which brokers create these topics; segment.bytes is from another setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSource:
    """Settings from one source, separated by what they apply to."""

    of_topic: dict[str, dict[str, str]] = field(default_factory=dict)
    """By the topic's name."""
    of_all_topics: dict[str, str] = field(default_factory=dict)
    of_broker: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that `read_settings` found."""

    overrides: SettingsSource = field(default_factory=SettingsSource)
    file: SettingsSource = field(default_factory=SettingsSource)
    metadata: ClusterMetadata | None = None
    broker: Mapping[str, Value] = field(default_factory=dict)
    """Every setting of the broker that concerns a log, parsed."""

    def for_topic(self, topic: str) -> LogConfig:
        """Return the settings of a topic. Raises SettingsError where Kafka would reject them."""
        values = self.values(topic)
        arguments: dict[str, Any] = {
            _FIELDS[name]: value for name, value in values.items() if name in _FIELDS
        }
        arguments["cleanup_policy"] = frozenset(arguments["cleanup_policy"])
        if values["internal.segment.bytes"] is not None:
            arguments["segment_bytes"] = values["internal.segment.bytes"]
        for name, argument in _BROKER_FIELDS.items():
            arguments[argument] = self.broker[name]
        return LogConfig(**arguments)

    def values(self, topic: str) -> dict[str, Value]:
        """Return every setting of a topic under Kafka's name, parsed."""
        values: dict[str, Value] = {name: definition.default for name, definition in TOPIC.items()}
        if topic == CLUSTER_METADATA_TOPIC:
            values |= self._metadata_log_values() | self._user_values(topic)
        else:
            topic_values = self._topic_values(topic) | self._user_values(topic)
            values |= self._defaults(topic_values) | topic_values
        _check_lags(values)
        return values

    def _user_values(self, topic: str) -> dict[str, Value]:
        """Return the settings of a topic from --config and --set."""
        is_ordinary = topic != CLUSTER_METADATA_TOPIC
        values: dict[str, Value] = {}
        for source in (self.file, self.overrides):
            values |= _parsed(source.of_all_topics) if is_ordinary else {}
            values |= _parsed(source.of_topic.get(topic, {}))
        return values

    def _defaults(self, topic_values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the broker's defaults, checked as a topic's unless the topic overrides them."""
        values = dict(topic_defaults(dict(self.broker)))
        for name, value in values.items():
            check = TOPIC[name].check
            if name not in topic_values and check is not None:
                check(name, value)
        return values

    def _topic_values(self, topic: str) -> dict[str, Value]:
        """Return the settings that the topic was created or altered with."""
        if self.metadata is not None and topic in self.metadata.topic_ids:
            return _parsed_metadata(self.metadata.topic_configs.get(topic, {}))
        if topic not in _INTERNAL:
            return {}
        segment_bytes, config = _INTERNAL[topic]
        return _parsed(config) | {"segment.bytes": self.broker[segment_bytes]}

    def _metadata_log_values(self) -> dict[str, Value]:
        return {
            "max.message.bytes": _MAX_METADATA_BATCH,
            "segment.bytes": self.broker["metadata.log.segment.bytes"],
            "segment.ms": self.broker["metadata.log.segment.ms"],
            "retention.ms": -1,
            "retention.bytes": -1,
        }


def read_settings(
    *,
    metadata: ClusterMetadata | None = None,
    node_id: int | None = None,
    config: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
) -> Settings:
    """Read the settings from all sources.

    Raises SettingsError, and FormatError or OSError for a file that cannot be read.
    """
    file = SettingsSource() if config is None else _read_file(config)
    from_command_line = _overrides(overrides)
    return Settings(
        overrides=from_command_line,
        file=file,
        metadata=metadata,
        broker=_broker_values(file, metadata, node_id, from_command_line),
    )


def ensure_topic_settings(texts: Mapping[str, str], broker: Mapping[str, Value]) -> None:
    """Raise SettingsError for settings of a topic in the metadata that Kafka rejects."""
    lags = {"min.compaction.lag.ms", "max.compaction.lag.ms"}
    values = _parsed_metadata(texts)
    if not lags.isdisjoint(values):
        _check_lags(dict(topic_defaults(dict(broker))) | values)


def ensure_broker_settings(texts: Mapping[str, str]) -> dict[str, Value]:
    """Return all settings of a broker with these settings in the metadata.

    Raises SettingsError for what the broker, its topics or its cleaner reject.
    """
    values = _values({name: text for name, text in texts.items() if name in _DYNAMIC})
    _check_times(values)
    Settings(broker=values).values("")
    _check_cleaner(values)
    return values


def _check_cleaner(broker: dict[str, Any]) -> None:
    """Reject values with which no cleaner thread can work (LogCleaner, SkimpyOffsetMap)."""
    threads, load_factor = (
        broker["log.cleaner.threads"],
        broker["log.cleaner.io.buffer.load.factor"],
    )
    if threads < 1:
        raise SettingsError("log.cleaner.threads should be at least 1")
    if not 0 < load_factor <= 1:
        raise SettingsError("log.cleaner.io.buffer.load.factor should be above 0 and at most 1")
    memory = broker["log.cleaner.dedupe.buffer.size"] // threads
    if memory // _MAP_ENTRY * load_factor <= 1:
        raise SettingsError(f"{memory} bytes for a cleaner thread's offset map: no room for a key")
    if broker["log.cleaner.io.buffer.size"] // threads < 2:
        raise SettingsError("log.cleaner.io.buffer.size should be at least 2 bytes for each thread")


def _read_file(path: str | os.PathLike[str]) -> SettingsSource:
    source = SettingsSource()
    properties = read_properties(path)
    # Java reads any bytes as properties, but a file with such bytes is not a properties file.
    if (found := _NO_TEXT.search(b"".join(line.raw for line in properties.lines))) is not None:
        raise SettingsError(
            f"{os.fspath(path)}@{found.start()}: found byte {found[0][0]:#04x}, expected text, as"
            " in server.properties"
        )
    for name, value in properties.values().items():
        try:
            known = _add(source, name, value, same_name_is_of_broker=True)
        except SettingsError as error:
            raise SettingsError(f"{os.fspath(path)}: {error}") from None
        close = difflib.get_close_matches(name, _ALL, 1, _TYPO_SIMILARITY)
        if not known and close:
            hint = f"did you mean {close[0]}?"
            raise SettingsError(f"{os.fspath(path)}: unknown setting {name}: {hint}")
    return source


def _overrides(texts: Sequence[str]) -> SettingsSource:
    source = SettingsSource()
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"{text!r}: expected NAME=VALUE")
        if not _add(source, name.strip(), value, same_name_is_of_broker=False):
            raise SettingsError(f"unknown setting {name.strip()}{_nearest(name, _ALL)}")
    return source


def _add(source: SettingsSource, name: str, value: str, *, same_name_is_of_broker: bool) -> bool:
    """Check and add a setting; return False if its name is unknown."""
    if name in BROKER and (same_name_is_of_broker or name not in TOPIC):
        BROKER[name].value(value)
        source.of_broker[name] = value
    elif name in TOPIC:
        TOPIC[name].value(value)
        source.of_all_topics[name] = value
    elif name.startswith(_TOPIC_PREFIX):
        _add_of_topic(source.of_topic, name, value)
    else:
        return False
    return True


def _add_of_topic(of_topic: dict[str, dict[str, str]], name: str, value: str) -> None:
    """Add `topic.<name>.<setting>`. Topic names may have dots: the longest setting wins."""
    rest = name.removeprefix(_TOPIC_PREFIX)
    fitting = [setting for setting in TOPIC if rest.endswith(f".{setting}")]
    if not fitting:
        _, _, setting = rest.partition(".")
        raise SettingsError(
            f"unknown setting {name}: expected topic.<name>.<setting of a topic>"
            f"{_nearest(setting, TOPIC)}"
        )
    setting = max(fitting, key=len)
    TOPIC[setting].value(value)
    of_topic.setdefault(rest.removesuffix(f".{setting}"), {})[setting] = value


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else ""


def _broker_values(
    file: SettingsSource,
    metadata: ClusterMetadata | None,
    node_id: int | None,
    overrides: SettingsSource,
) -> dict[str, Value]:
    dynamic = {} if metadata is None else metadata.broker_configs
    texts: dict[str, str] = dict(file.of_broker)
    running = texts
    _check_times(_values(texts))
    for altered in (dynamic.get(CLUSTER_DEFAULT, {}), dynamic.get(str(node_id), {})):
        texts = _merged(texts, _dynamic(altered))
        try:
            _check_times(_values(texts))
        except SettingsError:
            continue  # a broker logs the error and keeps its previous settings
        running = texts
    values = _values(_merged(running, overrides.of_broker))
    _check_times(values)
    return values


def _merged(texts: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Merge two sources; a name in `more` replaces all names of the same setting."""
    hidden = {synonym for name in more for synonym in _HIDDEN.get(name, ())}
    return {name: text for name, text in texts.items() if name not in hidden} | dict(more)


def _values(texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {name: definition.default for name, definition in BROKER.items()}
    return values | {name: BROKER[name].value(text) for name, text in texts.items()}


def _dynamic(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a running broker takes from the metadata: only valid ones."""
    usable = {}
    for name, text in config.items():
        if name in _DYNAMIC:
            try:
                BROKER[name].value(text)
            except SettingsError:
                continue
            usable[name] = text
    return usable


def _check_times(broker: dict[str, Value]) -> None:
    """Check times as KafkaConfig does."""
    values = dict(topic_defaults(broker))
    for name, synonym, least in (
        ("segment.ms", "log.roll.ms", 1),
        ("segment.jitter.ms", "log.roll.jitter.ms", 0),
    ):
        value = values[name]
        if isinstance(value, int) and value < least:
            text = f"{synonym} must be greater than or equal to {least}"
            raise SettingsError(f"requirement failed: {text}")
    if values["retention.ms"] == 0:
        text = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        raise SettingsError(f"requirement failed: {text}")


def _parsed(texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: TOPIC[name].value(text) for name, text in texts.items()}


def _parsed_metadata(texts: Mapping[str, str]) -> dict[str, Value]:
    """Parse a topic's settings; like Kafka, skip unsupported names (SupportedConfigChecker).

    Releases before 4.0 allowed smaller segments: such a topic is accepted.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in TOPIC:
            continue
        if name == "segment.bytes":
            size = TOPIC[name].parse(name, text)
            if isinstance(size, int) and size >= _MIN_SEGMENT_BYTES_BEFORE_4_0:
                values[name] = size
                continue
        values[name] = TOPIC[name].value(text)
    return values


def _check_lags(values: Mapping[str, Value]) -> None:
    """Check both compaction lags together, as LogConfig.validateValues does."""
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise SettingsError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
