"""The committed inputs: a file of a target, an input a line, in hexadecimal."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def read_corpus(target: str) -> list[bytes]:
    path = FOLDER / f"{target}.hex"
    return [bytes.fromhex(line) for line in path.read_text("ascii").splitlines()]


def write_corpus(target: str, inputs: Iterable[bytes]) -> None:
    lines = sorted({each.hex() for each in inputs}, key=lambda line: (len(line), line))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.hex").write_text("".join(f"{line}\n" for line in lines), "ascii")


def unpack_corpus(target: str, folder: Path) -> None:
    """Into files, as libFuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in read_corpus(target):
        (folder / hashlib.sha1(each, usedforsecurity=False).hexdigest()).write_bytes(each)
