"""The clients from PyPI: librdkafka through confluent-kafka, and kafka-python."""

import warnings
from collections.abc import Iterable
from typing import Any

from tests.golden.make.driver import T0

FLUSH_SECONDS = 30


def librdkafka_send(
    bootstrap: str, rows: Iterable[tuple[Any, ...]], *, topic: str, partition: int, **config: object
) -> None:
    """Rows of (key, value) or (key, value, headers); one producer, one flush."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "linger.ms": 100}
    producer = Producer(settings | {key.replace("_", "."): value for key, value in config.items()})
    for index, (key, value, *headers) in enumerate(rows):
        producer.produce(
            topic,
            value,
            key,
            partition,
            timestamp=T0 + index,
            headers=headers[0] if headers else None,
        )
    if producer.flush(FLUSH_SECONDS):
        raise TimeoutError(f"librdkafka did not deliver to {topic}-{partition}")


def kafka_python_send(
    bootstrap: str,
    rows: Iterable[tuple[Any, ...]],
    *,
    topic: str,
    partition: int,
    codec: str | None,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, linger_ms=100, acks="all"
        )
        sent = [
            producer.send(topic, value, key, partition=partition, timestamp_ms=T0 + index)
            for index, (key, value, *_) in enumerate(rows)
        ]
        producer.flush(FLUSH_SECONDS)
        for future in sent:
            future.get(FLUSH_SECONDS)
        producer.close(FLUSH_SECONDS)
