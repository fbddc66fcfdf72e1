"""Without Kafka's jars: one clear line, and in CI a failure. A pytest inside a pytest, offline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Ivy meets a proxy that nobody listens at: the same as no network, at once.
NO_NETWORK = " ".join(
    f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https")
)

SOME_TESTS = ("-q", "tests/oracle/test_oracle.py", "-k", "releases or one_jvm")


def run_without_jars(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *SOME_TESTS],
        cwd=ROOT,
        env=inherited
        | {"KAFKA_FORENSICS_CACHE": str(cache), "JAVA_TOOL_OPTIONS": NO_NETWORK}
        | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.oracle  # it needs Java, not the jars
def test_without_jars_the_oracle_tests_are_skipped_with_one_line(tmp_path: Path) -> None:
    done = run_without_jars(tmp_path)
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert done.returncode == 0, done.stdout
    assert len(skipped) == 1
    assert skipped[0].endswith("and Maven Central is not reachable")
    assert "passed" not in done.stdout


@pytest.mark.oracle
def test_in_ci_missing_jars_are_a_failure(tmp_path: Path) -> None:
    done = run_without_jars(tmp_path, CI="true")
    assert done.returncode == 1
    assert "CI must run the oracle tests" in done.stdout
    assert "skipped" not in done.stdout
