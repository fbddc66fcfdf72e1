import sys
import tempfile
import time
from pathlib import Path

from tests.golden.make.scenarios import SCENARIOS


def main(arguments: list[str]) -> int:
    chosen = list(SCENARIOS) if arguments == ["all"] else arguments
    if not chosen or set(chosen) - set(SCENARIOS):
        print(f"usage: python -m tests.golden.make all | {' | '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    for name in chosen:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
            folder = SCENARIOS[name].make(Path(scratch))
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{name}: {size:,} bytes in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
