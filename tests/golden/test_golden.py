"""The packs are whole, say where they come from, and hold what they promise.

Nothing here is judged by our own decoders: file names, literal bytes, what Kafka's consumer
received, and what Kafka's DumpLogSegments says.
"""

import hashlib
import re
from pathlib import Path

import pytest

from tests import golden

PACKS_TOGETHER = 6_000_000


@pytest.mark.parametrize("name", golden.names())
def test_every_file_of_a_pack_is_the_one_its_manifest_lists(name: str) -> None:
    root = golden.shared(name)
    listed = {
        (golden.PACKS / name if "/" not in each.path else root) / each.path: each
        for each in golden.checksums(name)
    }
    packed = {golden.PACKS / name / file for file in (golden.ARCHIVE, golden.EXPECTED)}
    assert listed.keys() == packed | {path for path in root.rglob("*") if path.is_file()}
    for path, checksum in listed.items():
        assert path.stat().st_size == checksum.size, path
        assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum.sha256, path


@pytest.mark.parametrize("name", golden.names())
def test_a_manifest_says_which_release_wrote_it_and_how_to_make_it_again(name: str) -> None:
    release = re.search(r"\d+\.\d+\.\d+(\.\d+)?", name).group()
    assert f"Written by Apache Kafka {release} " in golden.manifest(name)
    assert f"`python -m tests.golden.make {name}`" in golden.manifest(name)


@pytest.mark.parametrize("name", golden.names())
def test_a_pack_holds_no_path_of_the_machine_that_made_it(name: str) -> None:
    files = [path for path in golden.shared(name).rglob("*") if path.is_file()]
    for path in [*files, golden.PACKS / name / golden.MANIFEST]:
        assert not re.search(rb"/(tmp|home|root|Users|var)/", path.read_bytes()), path


def test_all_packs_together_are_small() -> None:
    sizes = [path.stat().st_size for path in golden.PACKS.rglob("*") if path.is_file()]
    assert sum(sizes) < PACKS_TOGETHER


def test_a_hole_reads_as_the_zeros_that_were_packed(tmp_path: Path) -> None:
    root = golden.unpack("unclean-4.3.1", tmp_path)
    index = root / "data/index-default-0/00000000000000000000.index"
    assert index.read_bytes() == bytes(10_485_760)
    assert (root / "data/.lock").read_bytes() == b""
