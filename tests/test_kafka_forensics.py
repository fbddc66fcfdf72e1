"""The public face: every name is there, has a docstring, and loads no more than it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

import kafka_forensics
from tests import golden

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", kafka_forensics.__all__)
def test_a_public_name_has_a_docstring(name):
    assert getattr(kafka_forensics, name).__doc__


def test_public_names_are_those_of_the_modules():
    from pipelines.log_directory import LogDirectory
    from pipelines.session import session

    assert kafka_forensics.LogDirectory is LogDirectory
    assert kafka_forensics.session is session
    assert dir(kafka_forensics) == kafka_forensics.__all__


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        _ = kafka_forensics.nosuch


def test_reading_a_file_loads_no_spark():
    (directory,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    program = (
        "import sys, kafka_forensics\n"
        "log = kafka_forensics.LogFile(open(sys.argv[1], 'rb'))\n"
        "print(sum(len(batch.records()) for batch in log.batches()))\n"
        "print({'pyspark', 'pyarrow'} & {*sys.modules})\n"
    )
    path = directory / "rolled-by.time-0" / "00000000000000000009.log"
    done = subprocess.run(
        [sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\nset()\n"
