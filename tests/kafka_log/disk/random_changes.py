"""Changes of a directory drawn at random, for `Files` of any kind and for a dict of bytes."""

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_log.disk.files import Files


def content(files: Files, name: str) -> bytes:
    return files.read(name, limit=2**20)


class Model:
    """A directory as a dict."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = {name: bytearray(data) for name, data in contents.items()}

    def write_at(self, name: str, position: int, data: bytes) -> None:
        content = self.contents[name]
        if data:
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        content = self.contents[name]
        content[size:] = bytes(max(0, size - len(content)))

    def create(self, name: str) -> None:
        self.contents.setdefault(name, bytearray())

    def rename(self, old: str, new: str) -> None:
        self.contents[new] = self.contents.pop(old)

    def delete(self, name: str) -> None:
        del self.contents[name]


class Applied:
    """The same changes to `Files`."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def write_at(self, name: str, position: int, data: bytes) -> None:
        with contextlib.closing(self.files.open(name)) as file:
            file.write_at(position, data)

    def truncate(self, name: str, size: int) -> None:
        with contextlib.closing(self.files.open(name)) as file:
            file.truncate(size)

    def create(self, name: str) -> None:
        self.files.open(name, create=True).close()

    def rename(self, old: str, new: str) -> None:
        self.files.rename(old, new)

    def delete(self, name: str) -> None:
        self.files.delete(name)


def draw_changes(rng: random.Random, model: Model) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Changes that the model allows, drawn as it goes."""
    for _ in range(25):
        names = sorted(model.contents)
        choices: list[tuple[str, tuple[Any, ...]]] = [("create", (rng.choice("abcdef"),))]
        if names:
            name, other = rng.choice(names), rng.choice([*names, "g"])
            data = rng.randbytes(rng.randrange(20))
            choices += [
                ("write_at", (name, rng.randrange(60), data)),
                ("write_at", (name, len(model.contents[name]), data)),
                ("truncate", (name, rng.randrange(60))),
                ("rename", (name, other)),
                ("delete", (name,)),
            ]
        yield rng.choice(choices)


def fill(rng: random.Random, directory: Path) -> dict[str, bytes]:
    contents = {name: rng.randbytes(rng.randrange(50)) for name in "abc"}
    for name, data in contents.items():
        (directory / name).write_bytes(data)
        os.utime(directory / name, (1_600_000_000, 1_600_000_000))
    return contents
