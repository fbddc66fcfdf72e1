"""`kafka-forensics VERB …`: one module a verb, loaded when it is asked for.

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


_INTERRUPTED = 130
_interrupts: list[int] = []
"""The signals of Ctrl-C so far."""
_SOON = 0.05  # seconds


def program() -> int:
    """`main` as a process of its own, which need not tidy up as one that goes on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever starts us says
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
    gc.freeze()  # Python would search all that was imported once more before it ends
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
    again = threading.Timer(_SOON, signal.pthread_kill, (main_thread, signal.SIGINT))
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
    from kafka_format.shown_text import escaped

    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return CLEAN if arguments else USAGE
    if arguments[0] == "--version":
        print(version())
        return CLEAN
    word = arguments[0]
    sys.stderr.write(f"kafka-forensics: unknown verb {escaped(word)}{_meant(word)}\n{_help()}\n")
    return USAGE


def _meant(word: str) -> str:
    """Suggest a verb: another tool's word for it, the beginning of one, or one mistyped."""
    from jobs.options import nearest

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
