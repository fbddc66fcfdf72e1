"""Every file of every golden directory: our dump is the original's, line by line."""

from pathlib import Path

import pytest

from tests import golden
from tests.kafka_log.dump.comparison import ENGINES, assert_same, reports, run
from tests.oracle.client import Oracle

LOG_FLAGS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--deep-iteration", "--skip-record-metadata"),
    ("--print-data-log", "--skip-record-metadata"),
    ("--deep-iteration", "--max-bytes", "700"),
)
INDEX_FLAGS = ((), ("--verify-index-only",), ("--index-sanity-check",))
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}


@pytest.fixture(scope="module", params=golden.names())
def pack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of our own: the original trims indexes that it opens."""
    return golden.unpack(request.param, tmp_path_factory.mktemp("golden"))


def files_of(directory: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


def directories(pack: Path) -> list[Path]:
    return sorted(path for path in pack.rglob("*") if path.is_dir())


@pytest.mark.parametrize("engine", ENGINES)
def test_logs_and_snapshots(pack: Path, oracle: Oracle, engine: str) -> None:
    compared = 0
    for directory in directories(pack):
        if files := files_of(directory, ".log", ".checkpoint"):
            for flags in LOG_FLAGS:
                assert_same(oracle, files, *flags, engine=engine)
            compared += len(files)
    assert compared


def test_decoded_records(pack: Path, oracle: Oracle) -> None:
    for directory in directories(pack):
        flag = DECODERS.get(directory.name.rpartition("-")[0])
        files = files_of(directory, ".log", ".checkpoint")
        if flag and files:
            assert_same(oracle, files, flag)
            assert_same(oracle, files, flag, "--skip-record-metadata")
            assert run(*files, flag).stdout == run(*files, "--auto-decoder").stdout
    for path in pack.rglob("bootstrap.checkpoint"):
        assert_same(oracle, [path], "--cluster-metadata-decoder")


def test_transaction_indexes_and_producer_snapshots(pack: Path, oracle: Oracle) -> None:
    for directory in directories(pack):
        if files := files_of(directory, ".txnindex", ".snapshot"):
            assert_same(oracle, files)


@pytest.mark.parametrize("flags", INDEX_FLAGS)
def test_indexes(pack: Path, oracle: Oracle, flags: tuple[str, ...]) -> None:
    compared = 0
    for path in sorted([*pack.rglob("*.index"), *pack.rglob("*.timeindex")]):
        original = oracle.dump("--files", path, *flags, check=False)
        ours = run(path, *flags)
        if original.error is None:
            assert ours.stdout == original.stdout, path
        elif original.error["class"].endswith("CorruptIndexException"):
            # Zeros to the end: a broker would build this one anew, and so it says.
            assert path.read_bytes()[-24:] == bytes(24)
            assert ours.code == 1, path
            continue
        else:
            # Preallocated, without entries, beside an empty log: the original dies of that.
            assert original.error["class"] == "java.util.NoSuchElementException", path
            assert path.with_suffix(".log").stat().st_size == 0
        assert ours.code == 0, path
        # A preallocated index that has no entry yet: the original takes zeros for a wrong one.
        is_preallocated = not path.read_bytes().strip(b"\0")
        expected = {} if is_preallocated else reports(original.stderr)
        assert reports(ours.stderr) == expected, path
        compared += 1
    assert compared


# An old broker gave records of magic 0 an entry in the time index, which is the producer's clock.
HAS_A_WRONG_ENTRY = "legacy-0.10.2.2"


@pytest.mark.parametrize(
    "flags",
    [(), ("--print-data-log",), ("--print-data-log", "--format", "json"), ("--verify-index",)],
)
def test_a_whole_directory_of_a_real_broker_has_no_damage(
    pack: Path, flags: tuple[str, ...]
) -> None:
    dumped = run(pack, *flags)
    assert dumped.code == (1 if pack.name == HAS_A_WRONG_ENTRY else 0), dumped.stderr
    assert "@" not in dumped.stderr
