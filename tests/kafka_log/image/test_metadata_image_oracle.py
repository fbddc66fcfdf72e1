"""The image equals that of Kafka's own classes, which write theirs as the records of a snapshot."""

import base64
from collections.abc import Iterable

import pytest

from kafka_format.metadata_records import decode_metadata_record
from kafka_log.image.metadata_image import MetadataImage, ReplayError
from tests.kafka_log.image.stories import Story


def image_of(records: Iterable[bytes]) -> tuple[MetadataImage, int | None]:
    """Return the image, and the index of the record that is refused."""
    image = MetadataImage()
    for index, record in enumerate(records):
        try:
            image.apply(decode_metadata_record(record))
        except ReplayError:
            return image, index
    return image, None


def assert_same_as_kafka(records, oracle):
    encoded = [base64.b64encode(one).decode() for one in records]
    answer = oracle.call("replay_metadata", records=encoded)
    theirs, refused = image_of(base64.b64decode(one) for one in answer["records"])
    assert refused is None
    ours, refused = image_of(records)
    assert refused == answer.get("failed_at"), answer.get("error")
    ours.deleted_topics.clear()  # a snapshot has none
    assert ours == theirs


@pytest.mark.parametrize("seed", range(60))
def test_an_image_is_what_kafka_makes_of_the_records(seed, oracle):
    records = [*Story(seed).records(120)]
    assert_same_as_kafka(records, oracle)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_images_are_what_kafka_makes_of_the_records(block, oracle):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        assert_same_as_kafka([*Story(seed).records(300)], oracle)
