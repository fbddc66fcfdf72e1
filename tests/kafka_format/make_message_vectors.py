"""Remakes message_vectors.json: a message of every type and version, written by Kafka 4.3.1.

python -m tests.kafka_format.make_message_vectors
"""

import json
from pathlib import Path
from typing import Any

from tests.oracle.client import Oracle

VECTORS = Path(__file__).with_name("message_vectors.json")
SEED = 20
DRAWN = 12
ENOUGH = 60  # bytes: large enough to be full of fields, small enough to flip every bit of it


def main() -> None:
    with Oracle() as oracle:
        drawn = oracle.random_messages(SEED, count=DRAWN)
    chosen: dict[tuple[str, int], Any] = {}
    for example in drawn:
        if example.set == "file":
            continue
        key = example.name, example.version
        best = chosen.setdefault(key, example)
        if abs(len(example.bare) - ENOUGH) < abs(len(best.bare) - ENOUGH):
            chosen[key] = example
    lines = [
        json.dumps(
            {
                "set": example.set,
                "part": example.part,
                "type": example.api_key,
                "name": example.name,
                "version": example.version,
                "bare": example.bare.hex(),
                "stored": example.stored.hex(),
                "data": example.data,
            },
            ensure_ascii=True,
        )
        for example in chosen.values()
    ]
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
