"""See the package's own words: `python -m tests.fuzz --help`."""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import tests.fuzz
from tests.fuzz import corpus

FINDINGS = Path(__file__).parent / "findings"
PACKAGES = ["kafka_format", "kafka_log"]
LONGEST_INPUT = 4096
LONGEST_KEPT = 600
TARGETS = sorted(path.stem for path in corpus.FOLDER.glob("*.hex"))


# libFuzzer starts itself again and again to merge, by the first of its arguments.
_MERGE = """
import sys
import atheris
with atheris.instrument_imports(include={packages!r}):
    from tests.fuzz import targets
itself = sys.executable + " " + sys.argv[0]
atheris.Setup([itself, *sys.argv[1:]], targets.TARGETS[{target!r}])
atheris.Fuzz()
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=tests.fuzz.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "60")))
    parser.add_argument("--compiled", action="store_true", help="kernels by numba, unseen inside")
    parser.add_argument("--keep", action="store_true", help="add what findings/ has to corpus/")
    parser.add_argument("input", nargs="*", type=Path, help="replay these, without atheris")
    options = parser.parse_args(argv)
    if options.input:
        return replay(options.target, options.input, compiled=options.compiled)
    if not _has_atheris():
        return 3
    if options.keep:
        return max(keep(target) for target in _wanted(options.target))
    if options.target:
        return fuzz(options.target, options.seconds, compiled=options.compiled)
    return fuzz_all(options.seconds)


def _has_atheris() -> bool:
    """atheris has wheels for Linux on x86-64 and nothing else."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        machine = f"{platform.system()} on {platform.machine()}"
        sys.stderr.write(
            f"Fuzzing needs atheris, which is made for Linux on x86-64 alone; this is {machine}."
            " The committed corpus is replayed everywhere: pytest tests/fuzz\n"
        )
        return False
    return True


def _wanted(target: str | None) -> list[str]:
    return TARGETS if target is None else [target]


def fuzz_all(seconds: int) -> int:
    """Each target in a process of its own: libFuzzer ends the one that it runs in."""
    share = max(1, seconds // len(TARGETS))
    failed = []
    for target in TARGETS:
        command = [sys.executable, "-m", "tests.fuzz", "--target", target, "--seconds", str(share)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stderr.splitlines()
        last = next((line for line in reversed(lines) if "cov:" in line), "")
        print(f"{target:24} {last.partition('cov:')[2].strip()[:60]}", flush=True)
        if done.returncode:
            failed.append(target)
            said = [line for line in lines if not line.startswith(("INFO", "WARNING", "#"))]
            sys.stderr.write("\n".join([*done.stdout.splitlines(), *said, ""]))
    if failed:
        print(f"findings in {', '.join(failed)}: see {FINDINGS}/*/crash-*; each can be replayed by")
        print("  python -m tests.fuzz --target TARGET FILE")
    return 1 if failed else 0


def fuzz(target: str, seconds: int, *, compiled: bool) -> int:
    """Does not return: libFuzzer exits."""
    import atheris

    # Kernels for numba must stay what they were, so atheris sees into them only as plain Python.
    kernels = ["kafka_format.columnar.kernels", "kafka_format.columnar.native"]
    kernels += ["kafka_log.dump.kernels"]
    with atheris.instrument_imports(include=PACKAGES, exclude=kernels if compiled else []):
        from tests.fuzz import targets

    targets.COMPILED = compiled
    folder = FINDINGS / target
    found = folder / "found"
    found.mkdir(parents=True, exist_ok=True)
    corpus.unpack_corpus(target, folder / "committed")
    flags = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=0",
    ]
    atheris.Setup(["fuzz", *flags, str(found), str(folder / "committed")], targets.TARGETS[target])
    atheris.Fuzz()
    return 0


def replay(target: str | None, paths: Sequence[Path], *, compiled: bool) -> int:
    from tests.fuzz import targets

    if target is None:
        sys.stderr.write("--target says which target to replay with\n")
        return 2
    targets.COMPILED = compiled
    for path in paths:
        targets.TARGETS[target](path.read_bytes())
        print(f"{path}: nothing found")
    return 0


def keep(target: str) -> int:
    """What findings/ has beyond the corpus in coverage, small inputs first, becomes part of it."""
    folder = FINDINGS / target
    if not (folder / "found").is_dir():
        return 0
    corpus.unpack_corpus(target, folder / "committed")
    merged = folder / "merged"
    merged.mkdir(exist_ok=True)
    for old in merged.iterdir():
        old.unlink()
    script = folder / "merge.py"
    script.write_text(_MERGE.format(packages=PACKAGES, target=target), "utf-8")
    folders = [str(each) for each in (merged, folder / "committed", folder / "found")]
    command = [sys.executable, str(script), "-merge=1", *folders]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(root)}
    )
    sizes = ((path, path.stat().st_size) for path in merged.iterdir())
    inputs = [path.read_bytes() for path, size in sizes if size <= LONGEST_KEPT]
    if done.returncode or not inputs:
        sys.stderr.write(f"{target}: libFuzzer could not merge\n")
        return 1
    before = len(corpus.read_corpus(target))
    corpus.write_corpus(target, inputs)
    print(f"{target:24} {before} inputs before, {len(inputs)} now")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
