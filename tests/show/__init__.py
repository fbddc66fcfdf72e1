"""Shows one seeded case: what was drawn, what Kafka left and what we left, side by side.

    python -m tests.show cleaner 17
    python -m tests.show --list

The seeded oracle tests name the command in the message of a failure: `seen_by` adds it.

Modules:

    sides    rows of two sides, and the page they are printed as
    text     batches and files as text
    logs     suites of the log and its parts: log, segment, indexes, epochs, producers
    opened   suites of whole directories and appends: recovery, retention, validation
    cleaned  suites of the cleaner: its rounds, explained rows, its manager
    suites   the table of suites
"""

from collections.abc import Iterator
from contextlib import contextmanager


def command(suite: str, seed: int) -> str:
    return f"python -m tests.show {suite} {seed}"


@contextmanager
def seen_by(suite: str, seed: int | None) -> Iterator[None]:
    """Name the command that shows this case if the code inside fails.

    No seed: the case was not drawn.
    """
    try:
        yield
    except Exception as error:
        note = None if seed is None else f"both sides of it: {command(suite, seed)}"
        if note and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
