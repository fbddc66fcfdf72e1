"""One file of settings for every way to start; what is missing is said in one line."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.session import SparkUnavailableError, parse_settings, session, settings, unavailable

ROOT = Path(__file__).parents[2]


def test_settings_are_names_and_values_with_blanks_or_an_equals_sign_between():
    text = "# a comment\n\n a.b   some words \nc.d=e=f\nno.value\n  # another\nx\ty"
    assert parse_settings(text) == {
        "a.b": "some words",
        "c.d": "e=f",
        "no.value": "",
        "x": "y",
    }


def test_delta_is_left_out_unless_asked_for():
    assert settings()["spark.sql.session.timeZone"] == "UTC"
    delta = {name: value for name, value in settings(delta=True).items() if name not in settings()}
    assert delta == {
        "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def test_the_session_that_is_there_is_used(spark):
    assert session() is spark
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_a_local_session_takes_a_quarter_of_the_memory(spark):
    heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
    lines = Path("/proc/meminfo").read_text().splitlines()
    memory = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
    assert heap >= 0.9 * max(2**30, memory / 4)  # a part of it is never free for objects
    assert heap <= max(2**30, memory / 3)


def test_without_java_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="no Java was found: install 17 or newer"):
        session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no Java" in unavailable()


def test_without_pyspark_one_line_says_so(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SparkUnavailableError, match="pyspark is not installed"):
        session()


def test_a_java_that_does_not_start_spark_is_said_to_be_too_old(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'class file version 61.0' >&2\nexit 1\n")
    java.chmod(0o755)
    program = (
        "from pipelines.session import *\n"
        "try: session()\n"
        "except SparkUnavailableError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Spark did not start (")
    assert done.stdout.endswith("it needs Java 17 or newer\n")


def test_the_module_loads_no_spark():
    program = "import sys, pipelines.session; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
