"""Changes that sweeps once found unreported: each has its finding now, and keeps it."""

import pytest

from tests import golden
from tests.audit.bench import Bench
from tests.oracle.client import Oracle

SNAPSHOT = "__cluster_metadata-0/00000000000000000051-0000000001.checkpoint"
LOG = "orders-0/00000000000000000009.log"
TRANSACTIONS = "orders-0/00000000000000000009.txnindex"
_BASE_OFFSET = 7
"""The last byte of the base offset of a file's first batch."""
_FIRST_OFFSET = 10
"""The first byte of the first offset of an entry."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(golden.shared("small-4.3.1") / "data", tmp_path_factory.mktemp("found"))


def changed(bench: Bench, name: str, position: int) -> dict[str, bytes | None]:
    data = bytearray(bench.files[name])
    data[position] ^= 0xFF
    return {name: bytes(data)}


def ids(bench: Bench, changes: dict[str, bytes | None]) -> set[tuple[str, str]]:
    with bench.with_files(changes):
        return {(each.id, each.severity) for each in bench.seen().new}


@pytest.mark.parametrize("name", [SNAPSHOT, "bootstrap.checkpoint"])
def test_the_offsets_of_a_metadata_snapshot_count_from_0(bench: Bench, name: str) -> None:
    assert ids(bench, changed(bench, name, _BASE_OFFSET)) == {("LOG015", "note")}


def test_kafka_reads_a_snapshot_whatever_its_offsets_are(bench: Bench, oracle: Oracle) -> None:
    healthy = oracle.read_file("metadata_snapshot", bench.root / SNAPSHOT)
    with bench.with_files(changed(bench, SNAPSHOT, _BASE_OFFSET)):
        found = oracle.read_file("metadata_snapshot", bench.root / SNAPSHOT)
    records = [[batch["records"] for batch in each["batches"]] for each in (healthy, found)]
    assert records[0] == records[1]
    assert len(records[0]) == 3
    assert found["batches"] != healthy["batches"]


def test_a_first_offset_that_cannot_be_is_another_transaction(bench: Bench) -> None:
    assert ids(bench, changed(bench, TRANSACTIONS, _FIRST_OFFSET)) == {("TXN005", "error")}


@pytest.mark.parametrize("end", ["torn", "zeroed"])
def test_what_a_torn_or_zeroed_segment_lacks_before_the_next_is_lost(
    bench: Bench, end: str
) -> None:
    data = bench.files[LOG]
    cut = data[:-9] if end == "torn" else data[:-(127)] + bytes(127)
    rule = "LOG004" if end == "torn" else "LOG005"
    assert ids(bench, {LOG: cut}) >= {("LOG020", "error"), (rule, "warning")}


def test_a_registered_log_dir_without_its_id_is_another_one(bench: Bench) -> None:
    data = bench.files["meta.properties"].replace(b"directory.id", b"directory.it")
    assert ids(bench, {"meta.properties": data}) == {("MET013", "warning")}
