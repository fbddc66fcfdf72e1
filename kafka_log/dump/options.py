"""The options of a dump, and the filters that select its rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kafka_log.dump.decoders import Decoded

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""kafka-dump-log's default: how far from an index entry's position it searches for the batch."""


class BytesDecoder(Enum):
    """How bytes are decoded to text: the decoder classes of Kafka, by their full names."""

    STRING = "org.apache.kafka.tools.api.StringDecoder"
    INTEGER = "org.apache.kafka.tools.api.IntegerDecoder"
    LONG = "org.apache.kafka.tools.api.LongDecoder"
    DEFAULT = "org.apache.kafka.tools.api.DefaultDecoder"
    """Bytes as they are. kafka-dump-log prints `[B@` and a random number; here it is base64."""


class RecordDecoder(Enum):
    """The kind of records in a log, by the name of its flag."""

    OFFSETS = "offsets-decoder"
    TRANSACTION_LOG = "transaction-log-decoder"
    CLUSTER_METADATA = "cluster-metadata-decoder"
    REMOTE_LOG_METADATA = "remote-log-metadata-decoder"
    SHARE_GROUP_STATE = "share-group-state-decoder"

    @property
    def function(self) -> Callable[..., "Decoded"]:
        from kafka_log.dump import decoders

        functions: dict[RecordDecoder, Callable[..., Decoded]] = {
            RecordDecoder.OFFSETS: decoders.offsets_decoder,
            RecordDecoder.TRANSACTION_LOG: decoders.transaction_log_decoder,
            RecordDecoder.CLUSTER_METADATA: decoders.cluster_metadata_decoder,
            RecordDecoder.REMOTE_LOG_METADATA: decoders.remote_log_metadata_decoder,
            RecordDecoder.SHARE_GROUP_STATE: decoders.share_group_state_decoder,
        }
        return functions[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which rows to print. A range includes its start and excludes its end.

    A row that lacks the field of a filter does not pass it: an index entry has no producer.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    producer_ids: frozenset[int] = frozenset()
    keys: frozenset[bytes] = frozenset()

    @property
    def on_offset(self) -> bool:
        return self.start_offset is not None or self.end_offset is not None

    @property
    def on_time(self) -> bool:
        return self.start_time is not None or self.end_time is not None

    def __bool__(self) -> bool:
        return self.on_offset or self.on_time or bool(self.producer_ids) or bool(self.keys)

    def pass_range(self, first_offset: int, last_offset: int) -> bool:
        return (self.start_offset is None or last_offset >= self.start_offset) and (
            self.end_offset is None or first_offset < self.end_offset
        )

    def pass_offset(self, offset: int | None) -> bool:
        if offset is None:
            return not self.on_offset
        return self.pass_range(offset, offset)

    def pass_time(self, timestamp: int | None) -> bool:
        if timestamp is None:
            return not self.on_time
        return (self.start_time is None or timestamp >= self.start_time) and (
            self.end_time is None or timestamp < self.end_time
        )

    def pass_producer(self, producer_id: int | None) -> bool:
        return not self.producer_ids or producer_id in self.producer_ids

    def pass_entry(
        self,
        *,
        offsets: tuple[int, int] | None = None,
        timestamp: int | None = None,
        producer_id: int | None = None,
    ) -> bool:
        """Return whether a row of a side file passes, by the fields that it has; none has a key."""
        return (
            not self.keys
            and (not self.on_offset if offsets is None else self.pass_range(*offsets))
            and self.pass_time(timestamp)
            and self.pass_producer(producer_id)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """The flags of kafka-dump-log, by their meaning, and additional ones."""

    format: Literal["text", "json"] = "text"
    deep: bool = False
    """Whether to print records, not only batches."""
    contents: bool = False
    """Whether to print keys and values, not only their sizes."""
    skip_record_metadata: bool = False
    key_decoder: BytesDecoder = BytesDecoder.STRING
    value_decoder: BytesDecoder = BytesDecoder.STRING
    record_decoder: RecordDecoder | None = None
    auto_decoder: bool = False
    """Whether to choose the record decoder by the topic's name, if none is given."""
    index_sanity_check: bool = False
    verify_index_only: bool = False
    verify_index: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int | None = None
    filters: Filters = field(default_factory=Filters)
    is_terminal: bool = False
    """Whether the output is a terminal: control characters are then escaped."""
    engine: Literal["auto", "rows", "columns"] = "auto"
    """Batch by batch, or whole columns with compiled code. The output is the same."""
