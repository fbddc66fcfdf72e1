"""`compact` on real partitions with seeded damage: a result or a line, never half of one."""

import random
import shutil

import pytest

from jobs import compact
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS
from tests import golden

MODES = {
    "dry": [],
    "several": ["--passes=until-clean", "--dedupe-buffer-size=300"],
    "copy": ["--output={out}"],
    "skip": ["--skip-damaged", "--output={out}"],
    "in place": ["--in-place"],
    "explain": ["--explain={out}"],
    "key": ["--explain-key=k"],
    "what if": ["--what-if=delete.retention.ms=0"],
}
TELLING = ("dry", "several", "key", "what if")


def partitions():
    return [
        path
        for pack in golden.names()
        for log_dir in golden.log_dirs(golden.shared(pack))
        for path in sorted(log_dir.iterdir())
        if path.is_dir()
        and not path.name.endswith(("-delete", "-future"))
        and "__cluster_metadata" not in path.name
        and any(log.stat().st_size for log in path.glob("*.log"))
    ]


def hurt(rng, partition):
    logs = sorted(partition.glob("*.log"))
    path = rng.choice(logs if rng.random() < 0.8 else sorted(partition.iterdir()))
    content = bytearray(path.read_bytes())
    if not content:
        return
    at = rng.randrange(len(content))
    kind = rng.choice(("flip", "flip", "zeros", "cut", "twice"))
    if kind == "flip":
        content[at] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        content[at : at + 20] = bytes(len(content[at : at + 20]))
    elif kind == "cut":
        del content[at : at + rng.randrange(1, 50)]
    else:
        content[at:at] = content[at : at + 30]
    path.write_bytes(content)


def files(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def one_case(capsys, folder, source, seed):
    rng = random.Random(seed)
    data, out = folder / "data", folder / "out"
    shutil.copytree(source, data / source.name)
    if rng.random() < 0.6:
        topic, _, number = source.name.rpartition("-")
        (data / ".kafka_cleanshutdown").write_bytes(b"")
        text = f"0\n1\n{topic} {number} {2**40}\n"
        (data / "recovery-point-offset-checkpoint").write_text(text)
    for _ in range(rng.choice((0, 1, 1, 2))):
        hurt(rng, data / source.name)
    mode = rng.choice(list(MODES))
    options = [each.format(out=out) for each in MODES[mode]]
    options += ["--exact-keys"] if rng.random() < 0.2 else []
    before = files(data)
    settings = ["--set=cleanup.policy=compact", "--first-dirty=0", "--now=1800000000000"]
    code = compact.main([str(data), *settings, *options])
    err = capsys.readouterr().err
    where = f"seed {seed}, {source.name}, {mode}: {err}"
    assert "Traceback" not in err, where
    assert "internal error" not in err, where
    assert code in (CLEAN, COULD_NOT_RUN, FINDINGS), where
    assert (code == FINDINGS) <= (mode in ("skip", *TELLING)), where
    if mode != "in place" or code == COULD_NOT_RUN:
        assert files(data) == before, where
    assert out.exists() == (mode in ("copy", "skip", "explain") and code != COULD_NOT_RUN), where
    return code


def many(capsys, folder, seeds):
    sources = partitions()
    codes = set()
    for seed in seeds:
        case = folder / str(seed)
        codes.add(one_case(capsys, case, random.Random(-seed).choice(sources), seed))
        shutil.rmtree(case)
    assert codes == {CLEAN, COULD_NOT_RUN, FINDINGS}


def test_damage_is_told_in_a_line_and_nothing_half_done_is_left(capsys, tmp_path):
    many(capsys, tmp_path, range(60))


def test_a_piece_of_which_every_batch_is_told_by_its_records_has_no_other_rows(
    capsys, tmp_path, monkeypatch
):
    """A seed that drew such a piece of magic 0: `--explain` had a table without rows to make."""
    telling = ("skip", "explain", "key", "what if")
    monkeypatch.setattr(f"{__name__}.MODES", {name: MODES[name] for name in telling})
    source = next(each for each in partitions() if each.name == "magic-0.compacted-0")
    one_case(capsys, tmp_path, source, 20220)


def test_in_place_an_offset_that_lies_is_told_while_nothing_is_touched(capsys, tmp_path):
    """A seed that drew it: no checksum covers the base offset, and indexes had grown by then."""
    source = next(each for each in partitions() if each.name == "compacted.no-retention-0")
    assert one_case(capsys, tmp_path, source, 4795) == COULD_NOT_RUN


@pytest.mark.soak
def test_much_damage_is_told_in_a_line(capsys, tmp_path):
    many(capsys, tmp_path, range(1000, 6000))
