"""The notebooks run, in a kernel of their own, on directories that real brokers left."""

import copy
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.golden import earlier

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
FORGET = "%reset -f"
"""What one notebook left behind is not there for the next; only Spark keeps running."""


def load(path):
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="module")
def executed():
    """The code cells of each, with their outputs. One kernel: another JVM would cost most time."""
    notebooks = {path.stem: copy.deepcopy(load(path).cells) for path in NOTEBOOKS}
    together = nbformat.v4.new_notebook()
    for cells in notebooks.values():
        together.cells += [*cells, nbformat.v4.new_code_cell(FORGET)]
    NotebookClient(together, timeout=300, kernel_name="python3").execute()
    return {
        name: [cell for cell in cells if cell.cell_type == "code"]
        for name, cells in notebooks.items()
    }


def texts(cells):
    return [
        output.get("data", {}).get("text/plain", output.get("text", ""))
        for cell in cells
        for output in cell.outputs
    ]


def plots(cells):
    return [
        output for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})
    ]


def rows(text):
    """Return the words of each line of a data frame as text, without header and row numbers."""
    return [line.split()[1:] for line in text.splitlines()[1:]]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["compaction", "first_look", "hanging_transaction"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path):
    code = [cell for cell in load(path).cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []


def test_the_first_look_tells_what_is_there(executed):
    shown, topics, *_ = texts(executed["first_look"])
    assert "node 1, not stopped cleanly, 12 topics, 26 partitions, 43 MiB" in shown
    assert ["transactions", "2"] in [row[:2] for row in rows(topics)]
    assert len(plots(executed["first_look"])) == 1


def test_the_open_transactions_are_found_by_sql(executed):
    found = texts(executed["hanging_transaction"])
    open_transactions = next(text for text in found if "first_offset" in text)
    # What `kafka-forensics offsets` and Kafka's own log say holds the last stable offset there.
    firsts = [row[:5] for row in rows(open_transactions)]
    assert ["transactions", "0", "16", "2", "45"] in firsts
    assert ["transactions", "1", "14", "2", "41"] in firsts
    assert found[-1].startswith("'transactions-0: last stable offset 45, held by producer 16;")
    assert len(plots(executed["hanging_transaction"])) == 1


def test_what_compaction_leaves_is_what_the_broker_of_the_pack_left(executed):
    found = texts(executed["compaction"])
    kept = sum(map(len, earlier.survivors().values()))
    assert re.match(
        rf"'{kept} of \d+ records would be kept, \d+\.\d % of the bytes would be removed'",
        found[-1],
    )
    rules = next(text for text in found if "verdict" in text)
    assert ["compacted.aborted", "removed", "aborted", "8"] in rows(rules)
    life = next(text for text in found if "detail" in text)
    assert " superseded " in life
    assert " latest " in life
    assert len(plots(executed["compaction"])) == 3
