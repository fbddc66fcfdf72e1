"""`kafka-forensics VERB …`: one module per verb, imported when the verb is used.

Little is imported here, so that `program` handles Ctrl-C before the imports that take time.
"""

import gc
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn

VERBS = {
    "audit": "check everything: what is wrong, what a restart does about it, and what to do",
    "list": "list partitions, files, sizes and offsets, and whether the broker stopped cleanly",
    "offsets": "print the offsets of each log, such as its high watermark, and what blocks them",
    "transactions": "print open, hanging, committed and aborted transactions, and how to abort one",
    "compact": "show what Kafka's log cleaner would keep, and why; write a compacted copy",
    "retain": "show what retention would delete by time, size and log start offset",
    "recover": "show what a restart would truncate, lose and rebuild",
    "export": "write tables as Delta or Parquet with a manifest; later runs add only new rows",
    "groups": "print consumer groups, members, committed offsets and lag, and the history of one",
    "metadata": "print topics, leaders, settings and brokers from the KRaft metadata, and history",
    "dump": "print the contents of files, in kafka-dump-log's format or as JSON lines",
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
    "check": "audit",
    "verify": "audit",
    "validate": "audit",
    "fsck": "audit",
    "doctor": "audit",
    "health": "audit",
    "lint": "audit",
    "txn": "transactions",
    "txns": "transactions",
    "producers": "transactions",
    "hanging": "transactions",
    "find-hanging": "transactions",
    "lag": "groups",
    "consumer-groups": "groups",
    "watermarks": "offsets",
    "clean": "compact",
    "cleaner": "compact",
    "delete": "retain",
    "expire": "retain",
    "retention": "retain",
    "repair": "recover",
    "restart": "recover",
    "restore": "recover",
    "parquet": "export",
    "delta": "export",
}
"""Words that other tools use for our verbs."""
_LIKENESS = 0.75
"""How similar a mistyped verb must be (difflib): `exprot` matches `export`, `tail` does not match
`retain`."""
_FEW_COLLECTIONS = 50_000
"""New objects before the next garbage collection; importing numba creates more than that."""


_INTERRUPTED = 130
_interrupts: list[int] = []
"""The signals of Ctrl-C so far."""
_RETRY_DELAY_S = 0.05


def program() -> int:
    """Run `main` as the whole process, which need not clean up its memory before it ends."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was set for us
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _interrupt_again
    gc.set_threshold(_FEW_COLLECTIONS)
    try:
        code = main()
    except BaseException:  # an import that is interrupted may fail with any error
        if not _interrupts:
            raise
        code = _INTERRUPTED
    if _interrupts:
        code = _INTERRUPTED
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # Python would otherwise traverse every imported object once more at exit
    return code


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    _interrupts.append(number)
    raise KeyboardInterrupt


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that was lost: it came while a library had called back (llvmlite does)."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    main_thread = threading.main_thread().ident
    again = threading.Timer(_RETRY_DELAY_S, signal.pthread_kill, (main_thread, signal.SIGINT))
    again.daemon = True
    again.start()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or arguments[0] not in VERBS:
        from jobs.options import guarded

        return guarded("kafka-forensics", lambda: _without_verb(arguments))
    verb, *rest = arguments
    job = import_module(f"jobs.{verb}")
    result: int = job.main(rest)
    return result


def _without_verb(arguments: Sequence[str]) -> int:
    from jobs.options import CLEAN, USAGE
    from kafka_format.shown_text import say

    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return CLEAN if arguments else USAGE
    if arguments[0] == "--version":
        print(version())
        return CLEAN
    word = arguments[0]
    say(f"kafka-forensics: unknown verb {word}{_suggestion(word)}", *_help().split("\n"))
    return USAGE


def _suggestion(word: str) -> str:
    """Suggest a verb for another tool's word, the beginning of a verb, or a mistyped one."""
    from jobs.options import nearest

    if word in _OTHER_WORDS:
        return f": did you mean {_OTHER_WORDS[word]}?"
    return nearest(word, [*VERBS], cutoff=_LIKENESS)


def version() -> str:
    from importlib import metadata

    return f"kafka-forensics {metadata.version('kafka-forensics')}"


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:{width}}  {summary}" for verb, summary in VERBS.items())
    return (
        "usage: kafka-forensics VERB PATH... [options]\n\n"
        "Inspect, check and repair Apache Kafka log directories offline.\n\n"
        f"verbs:\n{verbs}\n\n"
        "Run kafka-forensics VERB --help for the options of a verb."
    )


if __name__ == "__main__":
    raise SystemExit(program())
