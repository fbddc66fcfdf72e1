"""What `make demo` runs shows what it promises: a newcomer's first command must not rot."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_decodes_a_directory_and_compacts_one_on_spark() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, *acts = done.stdout.split("\n== ")
    shown = [
        ("What is on the disk", "producer_snapshot"),
        ("Every batch of a partition", "isTransactional: true"),
        ("What consumer groups", '"group":'),
        ("The cluster's own metadata log", '"type":"BEGIN_TRANSACTION_RECORD"'),
        ("Null and empty kept apart", '"key":"","value":null'),
        ("What Kafka's cleaner would leave", "15 superseded, 12 aborted"),
        ("And why, of one key", "producer 6 aborted its transaction"),
        ("A compacted copy", "transactions-0"),
    ]
    for act, (title, content) in zip(acts, shown, strict=True):
        assert act.startswith(title)
        assert content in act.replace("\n", ""), act
        assert "exit code" not in act
    assert "--engine spark" in acts[-1]
    names = acts[-1].rstrip().splitlines()[-1].split()
    assert {"tiny-indexed-0", "tiny.segments-0", "transactions-0"} < set(names)
