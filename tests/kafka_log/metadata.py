"""Cluster metadata with settings, for tests of what is made of them."""

from kafka_log.inventory.cluster_metadata import ClusterMetadata


def metadata(
    topics: dict[str, dict[str, str]] | None = None,
    brokers: dict[str, dict[str, str]] | None = None,
) -> ClusterMetadata:
    return ClusterMetadata(
        path="",
        topic_ids=dict.fromkeys(topics or {}),
        topic_configs=topics or {},
        broker_configs=brokers or {},
        deleted_topics={},
        replicas={},
        directories={},
        end_offset=0,
    )
