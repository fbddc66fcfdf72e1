"""The clients from PyPI: librdkafka through confluent-kafka, and kafka-python."""

import time
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


def librdkafka_join(
    bootstrap: str, *, group: str, topic: str, records: int, **config: object
) -> Any:
    """A member that has read so many records and committed them with metadata; still open."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "group.id": group}
    settings |= {"auto.offset.reset": "earliest"}
    settings |= {"enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings | {key.replace("_", "."): value for key, value in config.items()})
    consumer.subscribe([topic])
    deadline = time.monotonic() + FLUSH_SECONDS
    while records > 0:
        records -= consumer.poll(0.5) is not None
        if time.monotonic() > deadline:
            raise TimeoutError(f"librdkafka did not receive from {topic}")
    offsets = [
        TopicPartition(each.topic, each.partition, each.offset, metadata="by librdkafka")
        for each in consumer.position(consumer.assignment())
        if each.offset >= 0
    ]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


def kafka_python_join(bootstrap: str, *, group: str, topic: str, records: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        deadline = time.monotonic() + FLUSH_SECONDS
        while records > 0:
            records -= sum(map(len, consumer.poll(timeout_ms=500).values()))
            if time.monotonic() > deadline:
                raise TimeoutError(f"kafka-python did not receive from {topic}")
        consumer.commit()
    return consumer
