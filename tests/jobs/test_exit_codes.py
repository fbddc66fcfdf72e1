"""Exit codes mean the same in every verb (docs/exit-codes.md)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import cli
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, HUNG_UP, INTERRUPTED, USAGE
from kafka_log.inventory.scan import scan
from tests.jobs.running import broker_on
from tests.kafka_log.inventory.test_cluster_metadata import config, log

ROOT = Path(__file__).parents[2]
TOPIC = "tiny.segments"
LOG = f"{TOPIC}-0/{0:020d}.log"
OF_PARTITIONS = ("offsets", "transactions", "retain", "compact", "recover")
HERE = ("audit", "list", "dump", *OF_PARTITIONS)
"""Verbs that need no Spark."""
SELECTING = ("list", *OF_PARTITIONS)


def end(capsys, verb, *words):
    """The exit code and the lines on stderr."""
    code = cli.main([verb, *map(str, words)])
    return code, capsys.readouterr().err.splitlines()


def words(ended, verb):
    """The same, without the name that export puts first."""
    code, lines = ended
    return code, [line.removeprefix(f"kafka-forensics {verb}: ") for line in lines]


def exporting(tmp_path, verb):
    """What a verb needs besides a PATH."""
    return ("--output", str(tmp_path / "lake"), "--format", "parquet") if verb == "export" else ()


def first_log(data):
    return min((data / f"{TOPIC}-0").glob("*.log"))


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


# ----------------------------------------------------------------------------------- 0 and 1


@pytest.mark.parametrize("verb", HERE)
def test_a_sound_directory_is_0(verb, data, capsys):
    path = data / f"{TOPIC}-0" if verb == "dump" else data
    assert end(capsys, verb, path)[0] == CLEAN


@pytest.mark.parametrize("verb", SELECTING)
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", f"{TOPIC}-0/partition.metadata"]
)
def test_a_malformed_small_file_is_1(verb, name, data, capsys):
    (data / name).write_text("nonsense")
    code, lines = end(capsys, verb, data)
    assert code == FINDINGS
    assert sum(line.startswith(str(data / name)) for line in lines) == 1


@pytest.mark.parametrize(
    ("verb", "words"),
    [("dump", ()), ("recover", ("--clean-shutdown", "no", "--recovery-point", "0"))],
)
def test_a_damaged_batch_is_1_where_batches_are_read(verb, words, data, capsys):
    log = first_log(data)
    flip(log, log.stat().st_size - 1)
    path = log if verb == "dump" else log.parent
    assert end(capsys, verb, path, *words)[0] == FINDINGS


@pytest.mark.parametrize("verb", SELECTING)
@pytest.mark.parametrize(
    "name", ["meta.properties", "cleaner-offset-checkpoint", f"{TOPIC}-0/{99:020d}.index"]
)
def test_a_directory_under_the_name_of_a_file_is_1(verb, name, data, capsys):
    path = data / name
    if path.exists():
        path.unlink()
    path.mkdir()
    code, lines = end(capsys, verb, data, "--topic", TOPIC)
    assert code == FINDINGS
    assert [line for line in lines if line.startswith(f"{path}")]


@pytest.mark.parametrize("verb", SELECTING)
def test_a_setting_in_the_metadata_that_kafka_refuses_is_1_and_the_rest_is_read(verb, data, capsys):
    metadata = scan([str(data)]).metadata
    records = [
        config(2, TOPIC, "retention.ms", "abc"),
        config(4, "", "log.cleaner.threads", "0"),
    ]
    with max(Path(metadata.path).glob("*.log")).open("ab") as file:
        file.write(log(*records, base_offset=metadata.end_offset))
    code = cli.main([verb, str(data)])
    out, err = capsys.readouterr()
    assert code == FINDINGS
    assert [line for line in err.splitlines() if "Kafka refuses" in line] == [
        f"{metadata.path}: all brokers: log.cleaner.threads=0: Kafka refuses this setting",
        f"{metadata.path}: topic {TOPIC}: retention.ms=abc: Kafka refuses this setting",
    ]
    assert out or verb in ("recover", "transactions")  # which have no rows where there are none


@pytest.mark.parametrize("verb", SELECTING)
def test_a_directory_in_place_of_a_segment_is_1(verb, data, capsys):
    log = first_log(data)
    for each in log.parent.glob("*.log"):
        each.unlink()
    log.mkdir()
    code, lines = end(capsys, verb, data, "--topic", TOPIC)
    assert code == FINDINGS
    assert [line for line in lines if line.startswith(f"{log}: ")]


@pytest.mark.parametrize("verb", SELECTING)
def test_problems_of_partitions_that_are_not_selected_do_not_count(verb, data, capsys):
    (data / f"{TOPIC}-0" / "partition.metadata").write_text("nonsense")
    assert end(capsys, verb, data, "--topic", "codecs", "--partition", "0")[0] == CLEAN


# ----------------------------------------------------------------------------------------- 2


@pytest.mark.parametrize(
    "words", [("--now", "1" * 5_000), ("--now", "9" * 20), ("--config", "/proc/self/environ")]
)
def test_values_that_cannot_be_meant_are_2(words, data, capsys):
    assert end(capsys, "retain", data, *words)[0] == USAGE


@pytest.mark.parametrize("verb", cli.VERBS)
@pytest.mark.parametrize("words", [(), ("",), (".", "--no-such-option"), (".", "--engine", "x")])
def test_usage_is_2(verb, words, capsys, tmp_path):
    code, lines = end(capsys, verb, *words, *exporting(tmp_path, verb))
    assert code == USAGE
    assert lines[0].startswith(f"kafka-forensics {verb}: ")


# ----------------------------------------------------------------------------------------- 3


@pytest.mark.parametrize("verb", cli.VERBS)
def test_a_path_that_does_not_exist_is_3_in_the_same_words(verb, tmp_path, capsys):
    """A path that is not there is most often a slip: the error lists what is."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "dat"
    assert words(end(capsys, verb, path, *exporting(tmp_path, verb)), verb) == (
        COULD_NOT_RUN,
        [f"{path}: No such file or directory ({tmp_path} has data)"],
    )


@pytest.mark.parametrize("verb", cli.VERBS)
@pytest.mark.parametrize("name", ["", "notes.txt"])
def test_nothing_of_kafkas_is_3_in_the_same_words(verb, name, tmp_path, capsys):
    path = tmp_path / "somewhere"
    path.mkdir()
    if name:
        (path / name).write_text("hello")
    code, lines = words(end(capsys, verb, path, *exporting(tmp_path, verb)), verb)
    assert (code, lines) == (COULD_NOT_RUN, [f"{path}: no Kafka files found"])


@pytest.mark.parametrize("verb", HERE)
@pytest.mark.parametrize("path", ["new-0", "."])
def test_an_empty_partition_with_nothing_else_is_3_in_the_same_words(verb, path, tmp_path, capsys):
    (tmp_path / "new-0").mkdir()
    path = tmp_path / path
    assert end(capsys, verb, path) == (COULD_NOT_RUN, [f"{path}: no Kafka files found"])


@pytest.mark.parametrize("verb", SELECTING)
def test_an_empty_partition_in_a_log_dir_is_0(verb, data, capsys):
    """Kafka makes a new log there."""
    (data / "new-0").mkdir()
    assert end(capsys, verb, data, "--topic", "new")[0] == CLEAN


@pytest.mark.parametrize("verb", ["offsets", "retain"])
def test_an_empty_partition_that_had_data_is_not_0(verb, data, capsys):
    for file in (data / f"{TOPIC}-0").iterdir():
        file.unlink()
    assert end(capsys, verb, data, "--topic", TOPIC)[0] == FINDINGS


@pytest.mark.parametrize("verb", HERE)
@pytest.mark.parametrize("missing", ["nowhere", "empty"])
def test_one_missing_path_among_others_is_3_and_the_others_are_read(
    verb, missing, data, tmp_path, capsys
):
    (tmp_path / "empty").mkdir()
    more = ["--files"] if verb == "recover" else []  # else only what is lost has a row
    code = cli.main([verb, str(data / f"{TOPIC}-0"), str(tmp_path / missing), *more])
    captured = capsys.readouterr()
    assert code == COULD_NOT_RUN
    assert ("in 1 partition" if verb == "audit" else TOPIC) in captured.out
    assert str(tmp_path / missing) in captured.err


@pytest.mark.parametrize("verb", SELECTING)
def test_a_selection_that_matches_nothing_is_3_in_the_same_words(verb, data, capsys):
    code, lines = end(capsys, verb, data, "--topic", "nosuch", "--partition", "7")
    assert code == COULD_NOT_RUN
    assert lines == ["no partition matches --topic nosuch --partition 7 (18 partitions found)"]


@pytest.mark.parametrize("verb", SELECTING)
def test_a_file_that_cannot_be_read_is_3_and_wins_over_1(verb, data, capsys):
    """A link to nothing stands for it: root may read whatever has no permissions."""
    (data / f"{TOPIC}-0" / "partition.metadata").write_text("nonsense")
    checkpoint = data / "recovery-point-offset-checkpoint"
    checkpoint.unlink()
    checkpoint.symlink_to("nowhere")
    code, lines = end(capsys, verb, data)
    assert code == COULD_NOT_RUN
    assert [line for line in lines if line.startswith(str(checkpoint))]


@pytest.mark.parametrize("verb", ["retain", "compact", "recover"])
def test_in_place_under_a_running_broker_is_3(verb, data, capsys):
    with broker_on(data):
        code, lines = end(capsys, verb, data, "--in-place")
    assert code == COULD_NOT_RUN
    assert lines[0].startswith(f"{data}: a broker is running on this directory")


# ------------------------------------------------------------------------- a pipe, and Ctrl-C


def started(verb, *words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "jobs.cli", verb, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("verb", HERE)
def test_a_closed_pipe_is_0(verb, data):
    reading, writing = os.pipe()
    os.close(reading)
    words = ("--format", "json")
    process = started(verb, data / f"{TOPIC}-0", *words, stdout=writing)
    os.close(writing)
    _, err = process.communicate()
    assert process.returncode == CLEAN, err
    assert b"Traceback" not in err


SLOW = """
import sys, time
from jobs import cli

def slow(*_):
    print("begun", flush=True)
    time.sleep(60)

for module in ("kafka_log.inventory.scan", "kafka_log.inventory.directory"):
    __import__(module)
    for name in ("entry_of", "list_directory", "find_files"):
        if hasattr(sys.modules[module], name):
            setattr(sys.modules[module], name, slow)
raise SystemExit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("verb", SELECTING)
def test_ctrl_c_is_130_in_silence(verb, data):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, verb, str(data)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (INTERRUPTED, b"")


_SLOW_IMPORT = """
import os, signal, sys, types
from jobs import cli
def load(name):
    os.kill(os.getpid(), signal.SIGINT)
    {after}
cli.import_module = load
sys.argv = ["kafka-forensics", "list", "."]
raise SystemExit(cli.program())
"""
_SWALLOWED = """
import ctypes, os, signal, sys, time
from jobs import cli
def load(name):
    callback = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))
    callback()
    time.sleep(20)
cli.import_module = load
sys.argv = ["kafka-forensics", "list", "."]
raise SystemExit(cli.program())
"""


@pytest.mark.parametrize(
    "code", [_SLOW_IMPORT.format(after="pass"), _SWALLOWED], ids=["import", "callback"]
)
def test_ctrl_c_is_130_without_a_traceback_whenever_it_comes(code):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=15, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")


def test_options_are_not_imported_before_ctrl_c_is_handled():
    code = "import sys, jobs.cli; raise SystemExit('jobs.options' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# ------------------------------------------------------------------------- what stdout encodes


@pytest.mark.parametrize("words", [("list",), ("list", "--format", "json"), ("recover", "--files")])
def test_a_name_that_stdout_cannot_encode_is_escaped(words, data):
    (data / f"{TOPIC}-0").rename(data / "caf\u00e9\U0001f600-0")
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", *words, str(data)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"caf\\u00e9\\ud83d\\ude00" in done.stdout
    if "json" in words:
        topics = {json.loads(line).get("topic") for line in done.stdout.splitlines()}
        assert "caf\u00e9\U0001f600" in topics


# --------------------------------------------------------------------------------- the page


def test_the_page_has_every_verb_and_every_code():
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    assert [verb for verb in cli.VERBS if f"[{verb}](jobs/{verb}.md)" not in page] == []
    codes = (CLEAN, FINDINGS, USAGE, COULD_NOT_RUN, HUNG_UP, INTERRUPTED)
    assert [code for code in codes if f"\n| {code} |" not in page] == []


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_page_of_a_verb_leads_there(verb):
    assert "(../exit-codes.md)" in (ROOT / "docs" / "jobs" / f"{verb}.md").read_text()


# ------------------------------------------------------------------------ a stderr that fails


@pytest.mark.parametrize(
    ("verb", "stderr"),
    [("dump", "full"), ("dump", "closed pipe"), ("offsets", "full"), ("list", "closed pipe")],
)
def test_a_stderr_that_fails_changes_neither_stdout_nor_the_exit_code(verb, stderr, data):
    """What is wrong is written to stderr, which fails: at the first line, and when Python ends."""
    (data / f"{TOPIC}-0" / "partition.metadata").write_text("nonsense")
    log = first_log(data)
    flip(log, log.stat().st_size - 1)
    path = log.parent if verb == "dump" else data
    command = [sys.executable, "-m", "jobs.cli", verb, str(path), "--now", "1"]
    command = command[:-2] if verb in ("list", "dump") else command

    def ended(stderr):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, check=False)
        return done.returncode, done.stdout

    expected = ended(subprocess.DEVNULL)
    assert expected[0] == FINDINGS
    assert expected[1]
    if stderr == "full":
        failing = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, failing = os.pipe()
        os.close(reading)
    try:
        assert ended(failing) == expected
    finally:
        os.close(failing)
