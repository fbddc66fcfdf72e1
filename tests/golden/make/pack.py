"""Log directories become a pack: one archive, what consumers saw, a manifest."""

import hashlib
import io
import lzma
import tarfile
from datetime import UTC, datetime
from importlib.metadata import version as distribution_version
from pathlib import Path

from tests.golden import ARCHIVE, EXPECTED, MANIFEST, PACKS
from tests.golden.make.broker import Broker, java_version

# nothing of the machine that made it: names and bytes are all a pack keeps of a file
_MEMBER_TIME = 0


def write_pack(name: str, broker: Broker, clients: list[str], story: str, expected: Path) -> Path:
    folder = PACKS / name
    folder.mkdir(parents=True, exist_ok=True)
    members = {
        path.relative_to(broker.home).as_posix(): path
        for log_dir in broker.log_dirs
        for path in sorted((broker.home / log_dir).rglob("*"))
    }
    (folder / ARCHIVE).write_bytes(_archive(members))
    (folder / EXPECTED).write_bytes(lzma.compress(expected.read_bytes(), preset=9))
    manifest = _manifest(name, broker, clients, story, members)
    (folder / MANIFEST).write_text(manifest)
    return folder


def _archive(members: dict[str, Path]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.mtime = _MEMBER_TIME
            member.mode = 0o755 if path.is_dir() else 0o644
            if path.is_dir():
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                content = path.read_bytes()
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return lzma.compress(plain.getbuffer(), preset=9)


def _manifest(
    name: str, broker: Broker, clients: list[str], story: str, members: dict[str, Path]
) -> str:
    settings = "\n".join(f"{key}={value}" for key, value in broker.chosen.items())
    listed = "\n".join(
        f"{_sha256(path.read_bytes())} {path.stat().st_size:>9} {relative}"
        for relative, path in sorted(members.items())
        if path.is_file()
    )
    folder = PACKS / name
    packed = "\n".join(
        f"{_sha256((folder / file).read_bytes())} {(folder / file).stat().st_size:>9} {file}"
        for file in (ARCHIVE, EXPECTED)
    )
    return f"""# {name}

Written by Apache Kafka {broker.version} ({java_version()}), \
on {datetime.now(UTC).date().isoformat()}.
Clients: {", ".join(clients)}.
Made by `python -m tests.golden.make {name}` (tests/golden/make/scenarios/).

{story.strip()}

`{EXPECTED}` is what the Java consumer received just before the broker stopped, internal topics
too: for each isolation level and partition a line with its beginning and end offset, then a line
a record (bytes in base64, null for null).

## Broker settings

```properties
{settings}
```

## Packed files: sha256, size, name

```text
{packed}
```

## Unpacked files: sha256, size, path

```text
{listed}
```
"""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def client_versions(*names: str) -> list[str]:
    """`confluent-kafka`, `kafka-python` as installed; anything else as it is given."""
    described = []
    for name in names:
        if name == "confluent-kafka":
            import confluent_kafka

            library = confluent_kafka.libversion()[0]
            described.append(f"{name} {distribution_version(name)} (librdkafka {library})")
        elif name == "kafka-python":
            described.append(f"{name} {distribution_version(name)}")
        else:
            described.append(name)
    return described
