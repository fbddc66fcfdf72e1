"""Settings in the cluster metadata that Kafka refuses: reported, and replaced by the defaults.

A controller checks a setting before it writes the record, so a refused one is damage, or was
written by another program. It must not prevent reading the other topics.

First each setting is checked by itself. Then those that are checked together (the compaction lags,
and what cleaner threads share) are dropped if they do not fit together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_log.config.settings import SettingsError, ensure_broker_settings, ensure_topic_settings
from kafka_log.inventory.cluster_metadata import CLUSTER_DEFAULT, RefusedSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka_log.config.config_def import Value
    from kafka_log.inventory.cluster_metadata import ClusterMetadata

    Check = Callable[[Mapping[str, str]], object]

_TOPIC_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_CHECKED_TOGETHER = (
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.buffer.load.factor",
)


def without_refused_settings(metadata: ClusterMetadata) -> ClusterMetadata:
    """Return the metadata with the settings that Kafka accepts; the others are in `refused`."""
    refused: list[RefusedSetting] = []
    brokers = _broker_configs(metadata.broker_configs, refused)
    shared = brokers.get(CLUSTER_DEFAULT, {})
    defaults = [ensure_broker_settings({**shared, **each}) for each in (shared, *brokers.values())]
    lags = _distinct_lags(defaults)
    topics = {
        topic: _topic_config(topic, config, lags, refused)
        if topic in metadata.topic_ids
        else config
        for topic, config in metadata.topic_configs.items()
    }
    if not refused:
        return metadata
    return replace(metadata, topic_configs=topics, broker_configs=brokers, refused=tuple(refused))


def _broker_configs(
    configs: Mapping[str, Mapping[str, str]], refused: list[RefusedSetting]
) -> dict[str, Mapping[str, str]]:
    accepted: dict[str, Mapping[str, str]] = {}
    for broker in sorted(configs):  # the default of all brokers comes first
        about = RefusedSetting(None, broker, "", "", "")
        shared = accepted.get(CLUSTER_DEFAULT, {})

        def ensure(config: Mapping[str, str], shared: Mapping[str, str] = shared) -> None:
            ensure_broker_settings({**shared, **config})

        kept = _accepted_singly(configs[broker], ensure_broker_settings, about, refused)
        accepted[broker] = _accepted(kept, ensure, _CHECKED_TOGETHER, about, refused)
    return accepted


def _topic_config(
    topic: str,
    config: Mapping[str, str],
    brokers: Iterable[Mapping[str, Value]],
    refused: list[RefusedSetting],
) -> Mapping[str, str]:
    about = RefusedSetting(topic, "", "", "", "")
    own = next(iter(brokers))

    def ensure(config: Mapping[str, str]) -> None:
        for broker in brokers:
            ensure_topic_settings(config, broker)

    kept = _accepted_singly(config, lambda each: ensure_topic_settings(each, own), about, refused)
    return _accepted(kept, ensure, _TOPIC_LAGS, about, refused)


def _accepted_singly(
    config: Mapping[str, str], ensure: Check, about: RefusedSetting, refused: list[RefusedSetting]
) -> dict[str, str]:
    accepted: dict[str, str] = {}
    for name, value in config.items():
        accepted |= _accepted({name: value}, ensure, (name,), about, refused)
    return accepted


def _accepted(
    config: Mapping[str, str],
    ensure: Check,
    suspects: Iterable[str],
    about: RefusedSetting,
    refused: list[RefusedSetting],
) -> dict[str, str]:
    """Return the settings, without the suspects if Kafka refuses them."""
    try:
        ensure(config)
    except SettingsError as error:
        bad = {name: config[name] for name in suspects if name in config}
        refused += [
            about._replace(name=name, value=value, reason=str(error)) for name, value in bad.items()
        ]
        return {name: value for name, value in config.items() if name not in bad}
    return dict(config)


def _distinct_lags(brokers: Iterable[Mapping[str, Value]]) -> list[Mapping[str, Value]]:
    """Return one broker for each pair of lags: topics are checked against all of them."""
    names = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    return list({tuple(each[name] for name in names): each for each in brokers}.values())
