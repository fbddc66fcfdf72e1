"""What README and docs/kafka_files.md show of Spark runs, on a golden directory."""

import re
from pathlib import Path

import pytest

from tests import golden

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(python|sql)\n(.*?)```", re.DOTALL)
PLACE = "/var/lib/kafka/data"


def blocks(page: str, heading: str = "") -> list[tuple[str, str]]:
    """Language and text; of one section, or of the whole page."""
    text = (ROOT / page).read_text()
    if heading:
        text = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return BLOCK.findall(text)


@pytest.fixture
def data():
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    return str(log_dir)


def run(text: str, data: str, names: dict) -> dict:
    assert PLACE in text
    exec(compile(text.replace(PLACE, data), "page", "exec"), names)
    return names


def test_the_readme_queries_a_directory(spark, data, capsys):
    ((_, text),) = blocks("README.md", "Query it")
    # The golden directory has no orders, and to ask for them would be an error.
    names = run(text.replace('topics="orders"', 'topics="transactions"'), data, {})
    assert names["orders"].columns[:2] == ["key", "value"]
    assert names["orders"].schema["value"].dataType.simpleString() == (
        "struct<id:bigint,total:double>"
    )
    assert "|transactions" in capsys.readouterr().out.replace(" ", "")


def test_the_page_of_the_source_reads_a_directory_and_tells_how_much_was_read(spark, data, capsys):
    logging = "spark.sql.pyspark.worker.logging.enabled"
    before = spark.conf.get(logging)
    (_, first), (language, view), (_, damage), (_, metrics) = blocks("docs/kafka_files.md")
    try:
        assert run(first, data, {"spark": spark})["records"].columns[0] == "key"
        assert language == "sql"
        spark.sql(view.replace(PLACE, data))
        assert spark.table("orders").columns[0] == "key"
        run(damage, data, {"spark": spark})
        run(metrics, data, {"spark": spark})
    finally:
        spark.conf.set(logging, before)
    shown = capsys.readouterr().out
    assert "kafka_files: planned" in shown
    assert "kafka_files: read a split of records" in shown
