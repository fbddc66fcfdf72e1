"""The tables transactions, producers and transactional_ids: the rows of the verb, in columns."""

import pytest

from jobs import transactions
from pipelines.source.options import OptionsError
from pipelines.source.schema import column_names
from pipelines.source.tables.side_files import DamageError
from tests import golden
from tests.jobs.test_transactions import LATER, NOW, hanging_log
from tests.jobs.verbs import rows_of_verb
from tests.pipelines.in_process import read_table

KINDS = {
    "transactions": "transaction",
    "producers": "producer",
    "transactional_ids": "transactional_id",
}
PACKS = ["clean-3.9.1", "cleaner-4.3.1", "unclean-4.3.1"]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("table", KINDS)
def test_rows_and_columns_are_those_of_the_verb(capsys, pack, table):
    expected = [
        row
        for row in rows_of_verb(transactions.main, capsys, golden.shared(pack), *LATER)
        if row["kind"] == KINDS[table]
    ]
    found = read_table(golden.shared(pack), table, now=LATER[1])
    names = [name for name in column_names(table) if name != "path_base64"]
    assert expected
    assert [[row[name] for name in names] for row in found] == [
        [row[name] for name in names] for row in expected
    ]
    assert set(names) == set(expected[0]) - {"kind", "transactions"}


def test_topics_and_partitions_select(tmp_path):
    for number in (0, 1):
        hanging_log(tmp_path / f"orders-{number}")
    hanging_log(tmp_path / "payments-0")
    found = read_table(tmp_path, "transactions", topics="orders", partitions="1")
    assert [(row["topic"], row["partition"]) for row in found] == [("orders", 1)]


def test_a_stray_directory_has_no_rows(tmp_path):
    hanging_log(tmp_path / "orders-0")
    hanging_log(tmp_path / f"orders-1.{'0' * 32}-stray")
    assert {row["partition"] for row in read_table(tmp_path, "producers")} == {0}


def test_times_at_the_ends_of_64_bits_have_an_age(tmp_path):
    log = hanging_log(tmp_path / "orders-0") / f"{0:020d}.log"
    data = log.read_bytes()
    log.write_bytes(data[:27] + (-(2**63) + 7).to_bytes(8, "big", signed=True) + data[35:])
    (row,) = read_table(tmp_path, "transactions", now=NOW)
    assert (row["start_timestamp"], row["age_ms"]) == (-(2**63) + 7, 2**63 - 1)


@pytest.mark.parametrize(("table", "rows"), [("transactions", 1), ("producers", 0)])
def test_damage_is_left_out_and_fails_a_query_that_is_to_fail(tmp_path, table, rows):
    """A broker would not read beyond it, and load no producer."""
    log = hanging_log(tmp_path / "orders-0", marker=True) / f"{0:020d}.log"
    log.write_bytes(b"\1" * 70 + log.read_bytes())
    assert len(read_table(tmp_path, table, now=NOW)) == rows
    with pytest.raises(DamageError, match="@0"):
        read_table(tmp_path, table, now=NOW, mode="FAILFAST")


def test_wrong_settings_are_refused(tmp_path):
    hanging_log(tmp_path / "orders-0")
    with pytest.raises(OptionsError, match=r"retention\.ms"):
        read_table(tmp_path, "producers", settings='{"retention.ms": "soon"}')
