"""A broker that runs on the evidence is the first thing that a verb says."""

import pytest

from jobs import cli
from jobs.running import log_dirs_around, warn_running
from tests.jobs.running import broker_on

WARNING = "{}: a broker is running on this directory; its files may change while they are read"


def test_a_held_lock_is_a_line_and_a_lock_that_was_left_behind_is_none(data, capsys):
    (data / ".lock").touch()
    warn_running([str(data)])
    assert capsys.readouterr().err == ""
    with broker_on(data):
        warn_running([str(data), str(data)])
    assert capsys.readouterr().err == WARNING.format(data) + "\n"


def test_log_dirs_are_found_from_a_file_a_partition_and_from_above(data):
    (data / ".lock").touch()
    partition = data / "tiny.segments-0"
    log = next(partition.glob("*.log"))
    for path in (data, partition, log, data / "meta.properties", data.parent):
        assert [*log_dirs_around([str(path)])] == [str(data)], path
    assert [*log_dirs_around([str(data / "gone")])] == [str(data)]
    assert [*log_dirs_around([str(data.parent / "gone" / "far")])] == []


@pytest.mark.parametrize(
    "verb", ["list", "dump", "offsets", "transactions", "retain", "recover", "compact"]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_it_is_the_first_line_of_every_verb(verb, form, data, capsys):
    (data / "tiny.segments-0" / "partition.metadata").write_text("nonsense")
    with broker_on(data):
        cli.main([verb, str(data), "--format", form])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == WARNING.format(data)
    assert "\n".join(lines).count("a broker is running") == 1


def test_it_is_the_first_line_of_export_too(spark, data, tmp_path, capsys):
    del spark  # the session that export finds
    words = ["--table", "segments", "--format", "parquet", "--output", str(tmp_path / "lake")]
    with broker_on(data):
        cli.main(["export", str(data), *words])
    assert capsys.readouterr().err.splitlines()[0] == WARNING.format(data)


def test_list_does_not_call_a_running_broker_a_crashed_one(data, capsys):
    (data / ".kafka_cleanshutdown").unlink()
    with broker_on(data):
        cli.main(["list", str(data)])
    assert capsys.readouterr().out.splitlines()[1] == "  a broker is running on this directory"
    cli.main(["list", str(data)])
    assert capsys.readouterr().out.splitlines()[1] == (
        "  not stopped cleanly: the next start will recover the logs; .lock exists"
    )
