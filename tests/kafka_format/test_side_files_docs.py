"""The pages of docs/formats: what they draw decodes, and their table of damage is measured."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_format.checkpoint_file import decode_offset_checkpoint, encode_offset_checkpoint
from kafka_format.clean_shutdown_file import decode_clean_shutdown_file
from kafka_format.errors import MEMORY, FormatError, Location
from kafka_format.index_end import Stop
from kafka_format.leader_epoch_file import (
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
)
from kafka_format.offset_index import decode_offset_index
from kafka_format.partition_metadata import decode_partition_metadata, encode_partition_metadata
from kafka_format.producer_snapshot import decode_producer_snapshot
from kafka_format.properties_file import (
    decode_meta_properties,
    decode_properties,
    encode_meta_properties,
)
from kafka_format.quorum_state import decode_quorum_state, encode_quorum_state
from kafka_format.time_index import decode_time_index
from kafka_format.transaction_index import decode_transaction_index
from tests.kafka_format import (
    damage,
    test_checkpoint_file,
    test_clean_shutdown_file,
    test_offset_index,
    test_partition_metadata,
    test_producer_snapshot,
    test_properties_file,
    test_quorum_state,
    test_time_index,
    test_transaction_index,
)

DOCS = Path(__file__).parents[2] / "docs" / "formats"
EPOCHS = b"0\n2\n0 0\n3 120\n"

DRAWN = {
    "offset_index": test_offset_index.MOVED,
    "time_index": test_time_index.MOVED,
    "transaction_index": test_transaction_index.ABORTED,
    "producer_snapshot": test_producer_snapshot.OPEN_TRANSACTIONS,
    "offset_checkpoints": b"0\n1\nrolled-by.time 0 7\n",
    "leader_epoch_checkpoint": b"0\n1\n0 0\n",
    "partition_metadata": test_partition_metadata.GOLDEN,
    "clean_shutdown": test_clean_shutdown_file.GOLDEN,
}


def block(page: str, language: str, number: int = 0) -> str:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[number]


@pytest.mark.parametrize("page", DRAWN)
def test_a_page_draws_the_file_it_says(page):
    assert bytes.fromhex(block(page, "hex")) == DRAWN[page]


def test_pages_of_text_files_show_the_file_itself():
    assert block("meta_properties", "properties").encode() == test_properties_file.GOLDEN
    assert block("quorum_state", "json", 0).encode() == test_quorum_state.STATIC + b"\n"
    assert block("quorum_state", "json", 1).encode() == test_quorum_state.DYNAMIC + b"\n"


@pytest.mark.parametrize("page", sorted(page.stem for page in DOCS.glob("*.md")))
def test_every_page_is_in_the_index(page):
    assert page == "README" or f"({page}.md)" in (DOCS / "README.md").read_text("utf-8")


def kept_entries(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Entries of an index, or the stop that comes before its end."""

    def look(data: bytes) -> Any:
        file = decode(data)
        return file.entries.tolist() if file.stop is Stop.END_OF_FILE else file.stop

    return look


def readable_epoch(data: bytes) -> int:
    epoch = decode_clean_shutdown_file(data).broker_epoch
    if epoch is None:
        raise FormatError(Location(MEMORY, 0), "unreadable", "an epoch")
    return epoch


def meta_again(data: bytes) -> bytes:
    date = decode_properties(data).lines[1].raw.decode("latin-1")[1:-1]
    return encode_meta_properties(decode_meta_properties(data), date=date)


MEASURED: dict[str, tuple[bytes, Callable[[bytes], Any], Callable[[bytes], bytes]]] = {
    "offset_index": (
        test_offset_index.MOVED,
        kept_entries(lambda data: decode_offset_index(data, 0)),
        bytes,
    ),
    "time_index": (
        test_time_index.MOVED,
        kept_entries(lambda data: decode_time_index(data, 0)),
        bytes,
    ),
    "transaction_index": (
        test_transaction_index.ABORTED,
        kept_entries(decode_transaction_index),
        bytes,
    ),
    "producer_snapshot": (
        test_producer_snapshot.OPEN_TRANSACTIONS,
        lambda data: decode_producer_snapshot(data).entries.tolist(),
        bytes,
    ),
    "offset_checkpoint": (
        test_checkpoint_file.CLEANER,
        decode_offset_checkpoint,
        lambda data: encode_offset_checkpoint(decode_offset_checkpoint(data)),
    ),
    "leader_epoch_checkpoint": (
        EPOCHS,
        decode_leader_epoch_checkpoint,
        lambda data: encode_leader_epoch_checkpoint(decode_leader_epoch_checkpoint(data)),
    ),
    "partition_metadata": (
        test_partition_metadata.GOLDEN,
        decode_partition_metadata,
        lambda data: encode_partition_metadata(decode_partition_metadata(data)),
    ),
    "meta_properties": (test_properties_file.GOLDEN, decode_meta_properties, meta_again),
    "clean_shutdown": (test_clean_shutdown_file.GOLDEN, readable_epoch, bytes),
    "quorum_state (static voters)": (
        test_quorum_state.STATIC,
        decode_quorum_state,
        lambda data: encode_quorum_state(decode_quorum_state(data)),
    ),
    "quorum_state (dynamic)": (
        test_quorum_state.DYNAMIC,
        decode_quorum_state,
        lambda data: encode_quorum_state(decode_quorum_state(data)),
    ),
}


@pytest.mark.parametrize("file", MEASURED)
def test_the_table_of_damage_is_true(file):
    whole, decode, again = MEASURED[file]
    error = stop = same = foreign = silent = 0
    for _, data in damage.flips(whole):
        value = damage.value_or_error(decode, data)
        if isinstance(value, FormatError):
            error += 1
        elif isinstance(value, Stop):
            stop += 1
        elif value == decode(whole):
            same += 1
        elif again(data) != data:
            foreign += 1
        else:
            silent += 1
    row = f"| {file} | {len(whole) * 8} | {error} | {stop} | {same} | {foreign} | {silent} |"
    assert row in (DOCS / "README.md").read_text("utf-8")
