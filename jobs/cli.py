"""`kafka-forensics VERB …`: one module a verb, loaded when it is asked for."""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module

from jobs.options import CLEAN, USAGE, guarded, nearest
from kafka_format.shown_text import say

VERBS = {
    "list": "what is here: partitions, files, sizes, offsets, cleanly stopped or not",
    "offsets": "log start, high watermark, last stable offset, log end, and what blocks them",
    "compact": "what Kafka's cleaner would keep, and why a broker would or would not clean",
    "retain": "what retention would delete, by time, size and start offset",
    "recover": "what a restart would truncate and rebuild",
    "export": "tables as Delta or Parquet, each time only what is new, with a manifest",
    "dump": "the contents of files, in kafka-dump-log's words or as JSON lines",
}

_OTHER_WORDS = {
    "ls": "list",
    "inspect": "list",
    "show": "list",
    "describe": "list",
    "cat": "dump",
    "head": "dump",
    "tail": "dump",
    "print": "dump",
    "records": "dump",
    "verify": "dump",
    "check": "dump",
    "lag": "offsets",
    "watermarks": "offsets",
    "clean": "compact",
    "cleaner": "compact",
    "delete": "retain",
    "expire": "retain",
    "retention": "retain",
    "repair": "recover",
    "fsck": "recover",
    "restart": "recover",
    "restore": "recover",
    "parquet": "export",
    "delta": "export",
}
"""What other tools call it."""
_LIKENESS = 0.75
"""How alike a mistyped verb must be (difflib): `exprot` is, `tail` and `retain` are not."""
_FEW_COLLECTIONS = 50_000
"""New objects before the next look for garbage: importing numba alone makes more."""


def program() -> int:
    """`main` as a process of its own, which need not tidy up as one that goes on."""
    gc.set_threshold(_FEW_COLLECTIONS)
    code = main()
    gc.freeze()  # Python would search all that was imported once more before it ends
    return code


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or arguments[0] not in VERBS:
        return guarded("kafka-forensics", lambda: _without_verb(arguments))
    verb, *rest = arguments
    job = import_module(f"jobs.{verb}")
    result: int = job.main(rest)
    return result


def _without_verb(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return CLEAN if arguments else USAGE
    if arguments[0] == "--version":
        print(version())
        return CLEAN
    word = arguments[0]
    say(f"kafka-forensics: unknown verb {word}{_meant(word)}", *_help().split("\n"))
    return USAGE


def _meant(word: str) -> str:
    """Suggest a verb: another tool's word for it, the beginning of one, or one mistyped."""
    if word in _OTHER_WORDS:
        return f": did you mean {_OTHER_WORDS[word]}?"
    return nearest(word, [*VERBS], cutoff=_LIKENESS)


def version() -> str:
    from importlib import metadata

    return f"kafka-forensics {metadata.version('kafka-forensics')}"


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:{width}}  {says}" for verb, says in VERBS.items())
    return (
        "usage: kafka-forensics VERB PATH... [options]\n\n"
        "Shows what is in Apache Kafka's log directories, and what is wrong there.\n\n"
        f"verbs:\n{verbs}\n\n"
        "kafka-forensics VERB --help lists the options of a verb."
    )


if __name__ == "__main__":
    raise SystemExit(program())
