"""The name, type, default and bounds of each setting, parsed and rejected as Kafka does.

Mirrors org.apache.kafka.common.config.ConfigDef and the definitions that concern a log: those of
LogConfig (topics), and of ServerLogConfigs, CleanerConfig and a few more (brokers).
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafka_format import java_text
from kafka_log.config.log_config import DAY_MS, HOUR_MS, LONG_MAX, MEBIBYTE, MINUTE_MS

Value = bool | int | float | str | tuple[str, ...] | None

_TRIMMED = "".join(map(chr, range(0x21)))  # the characters that Java's String.trim removes
_SPACES = " \t\n\r\f\v"
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEX_DOUBLE = re.compile(r"([+-]?0[xX][0-9a-fA-F]*+\.?[0-9a-fA-F]*+[pP][+-]?[0-9]+)[fFdD]?")
_THROTTLED = re.compile(r"(?:[0-9]+:[0-9]+)?")
_JAVA_SCIENTIFIC = (1e-3, 1e7)


class SettingsError(ValueError):
    """A setting that Kafka would reject, mostly with Kafka's message."""


def invalid(name: str, value: object, reason: str) -> SettingsError:
    return SettingsError(f"Invalid value {value} for configuration {name}: {reason}")


Check = Callable[[str, Value], None]
"""Raises SettingsError for a value that the setting must not have."""


class Definition(NamedTuple):
    name: str
    parse: Callable[[str, str], Value]
    default: Value
    check: Check | None = None

    def value(self, text: str) -> Value:
        """Parse a text as Kafka does. Raises SettingsError."""
        value = self.parse(self.name, text)
        if self.check is not None:
            self.check(self.name, value)
        return value


def _boolean(name: str, text: str) -> bool:
    trimmed = text.strip(_TRIMMED).lower()
    if trimmed not in ("true", "false"):
        raise invalid(name, text, "Expected value to be either true or false")
    return trimmed == "true"


def _int(name: str, text: str) -> int:
    value = java_text.parse_int(text.strip(_TRIMMED))
    if value is None:
        raise invalid(name, text, "Not a number of type INT")
    return value


def _long(name: str, text: str) -> int:
    value = java_text.parse_long(text.strip(_TRIMMED))
    if value is None:
        raise invalid(name, text, "Not a number of type LONG")
    return value


def _double(name: str, text: str) -> float:
    trimmed = text.strip(_TRIMMED)
    if _DOUBLE.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD") if trimmed[-1:] in "fFdD" else trimmed)
    hexadecimal = _HEX_DOUBLE.fullmatch(trimmed)
    if hexadecimal:
        try:
            return float.fromhex(hexadecimal[1])
        except (ValueError, OverflowError):
            pass
    raise invalid(name, text, "Not a number of type DOUBLE")


def _string(_: str, text: str) -> str:
    return text.strip(_TRIMMED)


def _list(_: str, text: str) -> tuple[str, ...]:
    trimmed = text.strip(_TRIMMED)
    return tuple(item.strip(_SPACES) for item in trimmed.split(",")) if trimmed else ()


def _distinct(name: str, text: str) -> tuple[str, ...]:
    """Parse a list and remove duplicates, for which Kafka only logs a warning."""
    return tuple(dict.fromkeys(_list(name, text)))


def _java_text(value: Value) -> str:
    """Format a value as Java does."""
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    low, high = _JAVA_SCIENTIFIC
    if value == 0 or low <= abs(value) < high:
        return repr(value)
    return _scientific(value)


def _scientific(value: float) -> str:
    digits, _, power = repr(value).replace("e+", "e").partition("e")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    significant = (whole + fraction).lstrip("0")
    shift = len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    significant = significant.rstrip("0") or "0"
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{int(power or 0) + shift}"


def _at_least(minimum: int) -> Check:
    def check(name: str, value: Value) -> None:
        if isinstance(value, int | float) and float(value) < minimum:
            raise invalid(name, _java_text(value), f"Value must be at least {minimum}")

    return check


def _between(minimum: int, maximum: int) -> Check:
    at_least = _at_least(minimum)

    def check(name: str, value: Value) -> None:
        at_least(name, value)
        if isinstance(value, int | float) and float(value) > maximum:
            raise invalid(name, _java_text(value), f"Value must be no more than {maximum}")

    return check


def _one_of(*valid: str) -> Check:
    def check(name: str, value: Value) -> None:
        if value not in valid:
            raise invalid(name, value, f"String must be one of: {', '.join(valid)}")

    return check


def _list_of(*valid: str) -> Check:
    one_of = _one_of(*valid)

    def check(name: str, value: Value) -> None:
        for item in value if isinstance(value, tuple) else ():
            if not item:
                raise SettingsError(f"Configuration '{name}' values must not be empty.")
            one_of(name, item)

    return check


def _gzip_level(name: str, value: Value) -> None:
    if isinstance(value, int) and (value > 9 or (value < 1 and value != -1)):
        raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


def _throttled_replicas(name: str, value: Value) -> None:
    replicas = [item.strip(_TRIMMED) for item in value] if isinstance(value, tuple) else []
    if not all(map(_THROTTLED.fullmatch, replicas)) and "".join(replicas) != "*":
        raise invalid(
            name,
            _java_text(value),
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


_POLICIES = _list_of("compact", "delete")
_TIMESTAMPS = _one_of("CreateTime", "LogAppendTime")
_CODECS = _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _definitions(*definitions: Definition) -> dict[str, Definition]:
    return {definition.name: definition for definition in definitions}


_D = Definition
TOPIC = _definitions(
    _D("segment.bytes", _int, 1024 * MEBIBYTE, _at_least(MEBIBYTE)),
    _D("segment.ms", _long, 7 * DAY_MS, _at_least(1)),
    _D("segment.jitter.ms", _long, 0, _at_least(0)),
    _D("segment.index.bytes", _int, 10 * MEBIBYTE, _at_least(4)),
    _D("flush.messages", _long, LONG_MAX, _at_least(1)),
    _D("flush.ms", _long, LONG_MAX, _at_least(0)),
    _D("retention.bytes", _long, -1),
    _D("retention.ms", _long, 7 * DAY_MS, _at_least(-1)),
    _D("max.message.bytes", _int, MEBIBYTE + 12, _at_least(0)),
    _D("index.interval.bytes", _int, 4096, _at_least(0)),
    _D("delete.retention.ms", _long, DAY_MS, _at_least(0)),
    _D("min.compaction.lag.ms", _long, 0, _at_least(0)),
    _D("max.compaction.lag.ms", _long, LONG_MAX, _at_least(1)),
    _D("file.delete.delay.ms", _long, MINUTE_MS, _at_least(0)),
    _D("min.cleanable.dirty.ratio", _double, 0.5, _between(0, 1)),
    _D("cleanup.policy", _distinct, ("delete",), _POLICIES),
    _D("unclean.leader.election.enable", _boolean, False),
    _D("min.insync.replicas", _int, 1, _at_least(1)),
    _D("compression.type", _string, "producer", _CODECS),
    _D("compression.gzip.level", _int, -1, _gzip_level),
    _D("compression.lz4.level", _int, 9, _between(1, 17)),
    _D("compression.zstd.level", _int, 3, _between(-131072, 22)),
    _D("preallocate", _boolean, False),
    _D("message.timestamp.type", _string, "CreateTime", _TIMESTAMPS),
    _D("message.timestamp.before.max.ms", _long, LONG_MAX, _at_least(0)),
    _D("message.timestamp.after.max.ms", _long, HOUR_MS, _at_least(0)),
    _D("leader.replication.throttled.replicas", _list, (), _throttled_replicas),
    _D("follower.replication.throttled.replicas", _list, (), _throttled_replicas),
    _D("remote.storage.enable", _boolean, False),
    _D("local.retention.ms", _long, -2, _at_least(-2)),
    _D("local.retention.bytes", _long, -2, _at_least(-2)),
    _D("remote.log.copy.disable", _boolean, False),
    _D("remote.log.delete.on.disable", _boolean, False),
    _D("internal.segment.bytes", _int, None),
)
"""The settings of a topic (LogConfig)."""

BROKER = _definitions(
    _D("log.segment.bytes", _int, 1024 * MEBIBYTE, _at_least(MEBIBYTE)),
    _D("log.roll.ms", _long, None),
    _D("log.roll.hours", _int, 7 * 24, _at_least(1)),
    _D("log.roll.jitter.ms", _long, None),
    _D("log.roll.jitter.hours", _int, 0, _at_least(0)),
    _D("log.retention.ms", _long, None),
    _D("log.retention.minutes", _int, None),
    _D("log.retention.hours", _int, 7 * 24),
    _D("log.retention.bytes", _long, -1),
    _D("log.retention.check.interval.ms", _long, 5 * MINUTE_MS, _at_least(1)),
    _D("log.cleanup.policy", _distinct, ("delete",), _POLICIES),
    _D("log.index.size.max.bytes", _int, 10 * MEBIBYTE, _at_least(4)),
    _D("log.index.interval.bytes", _int, 4096, _at_least(0)),
    _D("log.flush.interval.messages", _long, LONG_MAX, _at_least(1)),
    _D("log.flush.interval.ms", _long, None),
    _D("log.flush.scheduler.interval.ms", _long, LONG_MAX),
    _D("log.segment.delete.delay.ms", _long, MINUTE_MS, _at_least(0)),
    _D("log.preallocate", _boolean, False),
    _D("log.message.timestamp.type", _string, "CreateTime", _TIMESTAMPS),
    _D("log.message.timestamp.before.max.ms", _long, LONG_MAX, _at_least(0)),
    _D("log.message.timestamp.after.max.ms", _long, HOUR_MS, _at_least(0)),
    _D("log.local.retention.ms", _long, -2, _at_least(-2)),
    _D("log.local.retention.bytes", _long, -2, _at_least(-2)),
    _D("message.max.bytes", _int, MEBIBYTE + 12, _at_least(0)),
    _D("compression.type", _string, "producer", _CODECS),
    _D("compression.gzip.level", _int, -1, _gzip_level),
    _D("compression.lz4.level", _int, 9, _between(1, 17)),
    _D("compression.zstd.level", _int, 3, _between(-131072, 22)),
    _D("unclean.leader.election.enable", _boolean, False),
    _D("min.insync.replicas", _int, 1, _at_least(1)),
    _D("log.cleaner.enable", _boolean, True),
    _D("log.cleaner.threads", _int, 1, _at_least(0)),
    _D("log.cleaner.io.max.bytes.per.second", _double, 1.7976931348623157e308),
    _D("log.cleaner.dedupe.buffer.size", _long, 128 * MEBIBYTE),
    _D("log.cleaner.io.buffer.size", _int, 512 * 1024, _at_least(0)),
    _D("log.cleaner.io.buffer.load.factor", _double, 0.9),
    _D("log.cleaner.backoff.ms", _long, 15 * 1000, _at_least(0)),
    _D("log.cleaner.min.cleanable.ratio", _double, 0.5, _between(0, 1)),
    _D("log.cleaner.delete.retention.ms", _long, DAY_MS, _at_least(0)),
    _D("log.cleaner.min.compaction.lag.ms", _long, 0, _at_least(0)),
    _D("log.cleaner.max.compaction.lag.ms", _long, LONG_MAX, _at_least(1)),
    _D("producer.id.expiration.ms", _int, DAY_MS, _at_least(1)),
    _D("transaction.max.timeout.ms", _int, 15 * MINUTE_MS, _at_least(1)),
    _D("transaction.partition.verification.enable", _boolean, True),
    _D("offsets.topic.segment.bytes", _int, 100 * MEBIBYTE, _at_least(1)),
    _D("offsets.topic.num.partitions", _int, 50, _at_least(1)),
    _D("offsets.retention.minutes", _int, 7 * 24 * 60, _at_least(1)),
    _D("transaction.state.log.segment.bytes", _int, 100 * MEBIBYTE, _at_least(1)),
    _D("share.coordinator.state.topic.segment.bytes", _int, 100 * MEBIBYTE, _at_least(1)),
    _D("metadata.log.segment.bytes", _int, 1024 * MEBIBYTE, _at_least(8 * MEBIBYTE)),
    _D("metadata.log.segment.ms", _long, 7 * DAY_MS),
)
"""The settings of a broker that concern a log."""

SYNONYMS = {
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "max.message.bytes": ("message.max.bytes",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "cleanup.policy": ("log.cleanup.policy",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "min.insync.replicas": ("min.insync.replicas",),
    "compression.type": ("compression.type",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "preallocate": ("log.preallocate",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "local.retention.ms": ("log.local.retention.ms",),
    "local.retention.bytes": ("log.local.retention.bytes",),
}
"""The settings of a broker that are the defaults of a topic's; the first one that is set wins."""

_UNITS = {"hours": HOUR_MS, "minutes": MINUTE_MS}


def topic_defaults(broker: dict[str, Value]) -> Iterator[tuple[str, Value]]:
    """Yield the defaults that a broker has for its topics (KafkaConfig.extractLogConfigMap)."""
    for name, synonyms in SYNONYMS.items():
        for synonym in synonyms:
            value = broker[synonym]
            if value is None:
                continue
            unit = _UNITS.get(synonym.rpartition(".")[2])
            if unit is not None and isinstance(value, int):
                value *= unit
            if name == "retention.ms" and isinstance(value, int) and value < 0:
                value = -1
            yield name, value
            break
