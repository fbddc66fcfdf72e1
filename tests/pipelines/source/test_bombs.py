"""Through Spark: what is too large is a row that says so, and the session lives on."""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from pipelines import LogDirectory
from tests.hostile import logs
from tests.pipelines.segments import write_segment

LOG = f"{0:020d}.log"
GIB = 1024**3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A record of a GiB of zeros, of which gzip makes a megabyte; a healthy partition beside it."""
    root = tmp_path_factory.mktemp("bomb")
    write_segment(root / "healthy-0", 0, 100)
    (root / "bomb-0").mkdir()
    sound = encode_batch([SimpleRecord(1, b"k", b"v")], base_offset=1)
    (root / "bomb-0" / LOG).write_bytes(logs.bomb("gzip", 2, GIB) + sound)
    assert (root / "bomb-0" / LOG).stat().st_size < 8 * 1024**2
    return root


def test_a_gigabyte_in_a_megabyte_is_one_row_that_says_so(spark, root):
    log = LogDirectory(spark, root)
    for _ in range(2):  # and the session is none the worse
        rows = log.records(columns="topic,offset,_corrupt_record").collect()
        assert sum(row.topic == "healthy" for row in rows) == 100
        assert sorted(row.offset for row in rows if row.topic == "bomb" and row.offset) == [1]
        (text,) = [row["_corrupt_record"] for row in rows if row["_corrupt_record"]]
        assert "LOG006: found compressed records of more than 268435456 bytes, not decoded" in text
    (finding,) = log.findings().collect()
    assert (finding.id, finding.severity, finding.topic) == ("LOG006", "warning", "bomb")
    assert log.batches().where("topic = 'bomb'").count() == 2


def test_the_limit_is_an_option_with_one_name(spark, root):
    log = LogDirectory(spark, root)
    small = log.records(topics="healthy", max_decompressed_bytes="1k", columns="_corrupt_record")
    # Batches of ten records of a hundred bytes are not compressed, and no row is larger.
    assert small.where("_corrupt_record is not null").count() == 0
    smaller = log.records(topics="healthy", max_decompressed_bytes=50, columns="_corrupt_record")
    assert smaller.where("_corrupt_record like '%LOG006%'").count() == smaller.count() == 100


def test_damage_is_a_row_by_default_and_named_as_spark_is_told(spark, tmp_path):
    write_segment(tmp_path / "t-0", 0, 30)
    log = tmp_path / "t-0" / LOG
    content = bytearray(log.read_bytes())
    content[-5] ^= 0xFF
    log.write_bytes(content)
    records = LogDirectory(spark, tmp_path).records
    assert records().count() == 21
    assert records().where("_corrupt_record is null").count() == 20
    assert records().where("offset >= 0").count() == 20
    assert records(mode="DROPMALFORMED").count() == 20
    named = records(column_name_of_corrupt_record="broken")
    assert named.columns[-1] == "broken"
    (row,) = named.where("broken is not null").collect()
    assert "LOG001" in row.broken
