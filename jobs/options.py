"""Shared by all verbs: the options, how they are parsed, and the exit code.

parser = Parser("retain", description=…, epilog=…)
add_paths(parser); add_selection(parser); add_settings(parser); …
return run(parser, argv, work)            # work(arguments) -> exit code
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import difflib
import errno
import io
import json
import math
import os
import resource
import stat
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from kafka_format.access import DEFAULT_MAX_DECOMPRESSED_BYTES, JAVA_MAX
from kafka_format.shown_text import say, shortened
from pipelines.partition_selection import PartitionSelection
from pipelines.report.text import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import SupportsWrite

    from kafka_log.clock import Clock
    from kafka_log.image.replay import Until

CLEAN, FINDINGS, USAGE, COULD_NOT_RUN, HUNG_UP, INTERRUPTED = 0, 1, 2, 3, 129, 130

KAFKA_VERSIONS = ("4.3",)
"""Releases whose rules every verb can follow, the newest last."""
_LARGEST = 2**63 - 1
_LONGEST_TIME = 64
_LARGEST_OFFSET = 10**11
"""A larger number is a time in milliseconds: no log of a coordinator has so many records."""
_ESCAPE = "kafka-forensics-escape"
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)


class UsageError(Exception):
    """The command line is wrong."""


class CannotRunError(Exception):
    """The command line is correct, but the work cannot be done here."""


class HungUpError(KeyboardInterrupt):
    """The terminal is gone (SIGHUP): ends the work as Ctrl-C does."""


class Parser(argparse.ArgumentParser):
    """Raise UsageError for a wrong command line instead of ending the process."""

    def __init__(self, verb: str, *, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"kafka-forensics {verb}",
            usage=f"kafka-forensics {verb} PATH... [options]",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._add_access()

    def _add_access(self) -> None:
        """Add `follow_links` and `max_decompressed_bytes`, which every verb has."""
        group = self.add_argument_group("reading")
        group.add_argument(
            "--follow-links",
            action="store_true",
            help="follow symbolic links that point outside the given paths",
        )
        group.add_argument(
            "--max-decompressed-bytes",
            type=_decompressed_size,
            default=DEFAULT_MAX_DECOMPRESSED_BYTES,
            metavar="SIZE",
            help="do not decode batches whose records exceed this size, such as 512m or"
            " 536870912; default: 256m",
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Let a write error through, which argparse would hide."""
        (file or sys.stderr).write(message)


def run(
    parser: Parser,
    argv: Sequence[str] | None,
    work: Callable[[argparse.Namespace], int],
    *,
    paths_of: Callable[[argparse.Namespace], Sequence[str]] = lambda arguments: arguments.paths,
) -> int:
    """Parse the options, do the work and return the exit code; print errors as one line.

    `paths_of` returns the paths of the evidence. Nothing outside of them is read, unless links are
    followed.
    """
    _allow_open_files()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return _run(parser, argv, work, paths_of)
    from pipelines.session import SubmitStderr

    with contextlib.redirect_stderr(SubmitStderr()):
        return _run(parser, argv, work, paths_of)


def _allow_open_files() -> None:
    """Raise the limit to the maximum: an open log holds several files per segment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS refuses its own hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run(
    parser: Parser,
    argv: Sequence[str] | None,
    work: Callable[[argparse.Namespace], int],
    paths_of: Callable[[argparse.Namespace], Sequence[str]],
) -> int:
    def work_on_options() -> int:
        try:
            arguments = parse(parser, sys.argv[1:] if argv is None else argv)
            if arguments is None:
                return CLEAN
            arguments.paths = paths_of(arguments)
            require_paths(arguments.paths)
            return _work_on_evidence(arguments, work)
        except UsageError as error:
            say(f"{parser.prog}: {error}", *parser.format_usage().split("\n")[:-1])
            return USAGE

    return guarded(parser.prog, work_on_options)


def _work_on_evidence(
    arguments: argparse.Namespace, work: Callable[[argparse.Namespace], int]
) -> int:
    """Do the work under the rules for evidence, then check that the evidence has not changed."""
    from kafka_format.access import Access, absolute_roots, using, watching

    allowed = Access(
        roots=absolute_roots(arguments.paths),
        follow_links=arguments.follow_links,
        max_decompressed_bytes=arguments.max_decompressed_bytes,
    )
    with using(allowed), watching() as watch:
        code = work(arguments)
        if getattr(arguments, "in_place", False):
            return code  # the changes are our own
        for error in watch.changes():
            say(f"{error.filename}: {error.strerror}")
            code = COULD_NOT_RUN
        if code != COULD_NOT_RUN:  # otherwise it was reported already
            for error in watch.raised:
                say(f"{error.filename}: {error.strerror}")
                code = COULD_NOT_RUN
    if not getattr(arguments, "quiet", False):
        for path in sorted(watch.grown):
            say(f"{path}: note: the file grew while it was read")
    return code


def guarded(name: str, work: Callable[[], int]) -> int:
    """Do the work and return the exit code, even if stdout or stderr cannot be written."""
    if sys.stderr is None:  # closed by the parent process
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    with contextlib.redirect_stderr(OptionalStderr(sys.stderr)):
        return _guarded(name, work)


class OptionalStderr(io.TextIOBase):
    """A stderr that may fail (a closed pipe, a full disk): then nothing more is written to it.

    An error of stderr would otherwise be taken for one of stdout, or of the evidence.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            _discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is flushed."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def _guarded(name: str, work: Callable[[], int]) -> int:
    if sys.stdout is None:
        say(f"{name}: stdout is closed")
        return COULD_NOT_RUN
    _escape_what_stdout_cannot_encode()
    try:
        code = work()
        sys.stdout.flush()
    except CannotRunError as error:
        say(f"{name}: {error}")
        return COULD_NOT_RUN
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        discard_stdout()
        return CLEAN
    except OSError as error:
        say(f"{name}: {_error_text(error)}")
        discard_stdout()
        return COULD_NOT_RUN
    except HungUpError:
        return HUNG_UP
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _escape_what_stdout_cannot_encode() -> None:
    r"""Have `\u00e9` written where the encoding of stdout has no such character.

    JSON reads it as the character. By default Python raises an error.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        codec = codecs.lookup(stream.encoding).name
        if codec != "utf-8":
            codecs.register_error(_ESCAPE, _json_escape)
            stream.reconfigure(errors=_ESCAPE)


def _json_escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def discard_stdout() -> None:
    """Send what Python still flushes at exit to /dev/null, so that it does not fail again."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # in a test it may not be a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _error_text(error: OSError) -> str:
    """Say what failed and why. An error without a file name that is about writing is stdout's."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    return f"cannot write to stdout: {reason}" if error.errno in _WRITE_ERRORS else reason


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace | None:
    """Parse the words; return None if the help was printed."""
    words, after = _split(argv)
    try:
        arguments, unknown = parser.parse_known_intermixed_args(words)
    except SystemExit:
        return None
    known = [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001
    for word in unknown:
        raise UsageError(f"unknown argument {word}{nearest(word.partition('=')[0], known)}")
    arguments.paths = [*arguments.paths, *after]
    return arguments


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split at `--`. After it come only paths, which argparse would take for options here."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def require_paths(paths: Sequence[str]) -> None:
    if not paths:
        raise UsageError("no PATH given")
    if not all(paths):
        raise UsageError("PATH must not be empty")  # an unset shell variable


def nearest(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Return a hint for a mistyped or incomplete word."""
    matching = [each for each in known if len(word) > 2 and each.startswith(word)]
    close = difflib.get_close_matches(
        word, matching or known, n=1, cutoff=0 if matching else cutoff
    )
    return f": did you mean {close[0]}?" if close else ""


def add_paths(parser: Parser, *, files: bool = True) -> None:
    """Add `paths`."""
    what = "a partition directory, or a file" if files else "or a partition directory"
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help=f"a log dir, a directory that contains log dirs, {what}",
    )


def add_partitions(parser: Parser) -> None:
    """Add the options of verbs that work on partitions: selection, settings and time."""
    add_paths(parser, files=False)
    add_selection(parser)
    add_settings(parser)
    add_clock(parser)


def add_running(parser: Parser, versions: Sequence[str] = KAFKA_VERSIONS) -> None:
    """Add output format, engine and Kafka version."""
    add_format(parser)
    add_engine(parser)
    add_kafka_version(parser, versions)


def add_selection(parser: Parser) -> None:
    """Add `topics` and `partitions`; see `Selection.of`."""
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="GLOB",
        help="only topics that match, such as 'orders-*'; repeatable",
    )
    group.add_argument(
        "--partition",
        action="append",
        default=[],
        dest="partitions",
        type=_partition,
        metavar="N",
        help="only partitions with this number; repeatable",
    )


def _decompressed_size(text: str) -> int:
    return size(text, "a size from 1 to 2147483647 bytes", least=1, most=JAVA_MAX)


def _partition(text: str) -> int:
    return natural(text, "a partition number, 0 or more")


def offset(text: str) -> int:
    """Parse an offset."""
    return natural(text, f"an offset, 0 to {_LARGEST}", most=_LARGEST)


def producer_id(text: str) -> int:
    """Parse a producer id: any value that a batch can have."""
    return natural(text, f"a producer id, up to {_LARGEST}", least=-_LARGEST - 1, most=_LARGEST)


def high_watermark(text: str) -> int:
    """Parse a high watermark: an offset, or `end`, which becomes END."""
    from pipelines.engine.partition_tasks import END

    return END if text == "end" else natural(text, "an offset, or `end`", most=_LARGEST)


def new_directory(text: str) -> str:
    """Parse the path of a directory that will be created."""
    if not text:  # an unset shell variable
        raise argparse.ArgumentTypeError("found an empty string, expected a new directory")
    return text


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("found an empty string, expected a file")
    with contextlib.suppress(OSError):  # opening it reports what is wrong
        status = Path(text).stat()
        if stat.S_ISREG(status.st_mode) and not status.st_size:  # also the kernel's, as /proc/kmsg
            raise argparse.ArgumentTypeError(f"{text}: found an empty file, expected settings")
    return text


def natural(text: str, expected: str, *, least: int = 0, most: float = math.inf) -> int:
    """Parse a whole number between two limits; `expected` describes it in the error."""
    with contextlib.suppress(ValueError):
        number = int(text)
        if least <= number <= most:
            return number
    raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")


def size(text: str, expected: str, *, least: int = 0, most: float = math.inf) -> int:
    """Parse a number of bytes, or a size such as 128m; `expected` describes it in the error."""
    number = parse_size(text)
    if number is None or not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected {expected}, such as 128m or 134217728"
        )
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(PartitionSelection):
    """The partitions to work on, as options say."""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Selection:
        return cls(topics=tuple(arguments.topics), partitions=frozenset(arguments.partitions))

    @property
    def text(self) -> str:
        """Return the selection as it was typed: `--topic orders --partition 0`."""
        topics = [f"--topic {glob}" for glob in self.topics]
        return " ".join([*topics, *(f"--partition {each}" for each in sorted(self.partitions))])


def add_settings(parser: Parser) -> None:
    """Add `config` and `set`; see kafka_log/config/settings.py."""
    group = parser.add_argument_group(
        "settings (by default from the KRaft metadata in the log dir, else Kafka's defaults)"
    )
    group.add_argument(
        "--config",
        type=_file,
        metavar="FILE",
        help="read settings from this file, such as a broker's server.properties",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override one setting, such as retention.ms=60000; repeatable",
    )


def add_clock(parser: Parser, what: str = "use this as the current time") -> None:
    """Add `now`; see `clock`."""
    parser.add_argument(
        "--now",
        type=time_ms,
        metavar="TIME",
        help=f"{what}: epoch milliseconds or ISO 8601 (UTC), such as 2026-01-31T12:00:00Z",
    )


def clock(arguments: argparse.Namespace) -> Clock:
    from kafka_log.clock import FixedClock, system_clock

    return system_clock if arguments.now is None else FixedClock(arguments.now)


class Mode(Enum):
    """What a verb may write."""

    DRY_RUN = "dry-run"
    """Nothing is written."""
    OUTPUT = "output"
    """A copy is written elsewhere."""
    IN_PLACE = "in-place"
    """The directory itself is changed."""


def add_mode(parser: Parser) -> None:
    """Add `dry_run`, `output` and `in_place`, which exclude each other; see `mode`."""
    group = parser.add_argument_group("output").add_mutually_exclusive_group()
    group.add_argument(
        "--dry-run", action="store_true", help="print what would be done, write nothing (default)"
    )
    group.add_argument(
        "--output",
        type=new_directory,
        metavar="DIR",
        help="write the result to this new directory; if anything fails, write nothing",
    )
    group.add_argument(
        "--in-place",
        action="store_true",
        help="change the directory itself; refused while a broker is running on it",
    )


def mode(arguments: argparse.Namespace) -> Mode:
    if arguments.in_place:
        return Mode.IN_PLACE
    return Mode.DRY_RUN if arguments.output is None else Mode.OUTPUT


def add_format(parser: Parser) -> None:
    """Add `format` (text or json), `wide` (for jobs/table.py) and `quiet`."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="print a table (default), or one JSON object per line",
    )
    parser.add_argument(
        "--wide", action="store_true", help="do not shorten columns to fit the terminal"
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress bar and no summary")


def add_engine(parser: Parser) -> None:
    """Add `engine`, for `pipelines.engine.engine.run`."""
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        metavar="auto|local|spark",
        help="run in local processes or on Spark; auto (default) uses Spark from 1 GB on",
    )


def add_kafka_version(parser: Parser, known: Sequence[str] = KAFKA_VERSIONS) -> None:
    """Add `kafka_version`: X.Y means all of its releases, X.Y.Z only that one."""
    shown = [f"{each} (only that release)" if each.count(".") > 1 else each for each in known]
    shown[-1] += " (default)"
    parser.add_argument(
        "--kafka-version",
        type=lambda text: _kafka_version(text, known),
        default=known[-1],
        metavar="VERSION",
        help=f"follow the rules of this Kafka version: {' or '.join(shown)}",
    )


def by_rules(arguments: argparse.Namespace) -> str:
    """Return a clause for the end of a summary; empty for the newest version."""
    version = arguments.kafka_version
    return "" if version == KAFKA_VERSIONS[-1] else f", by the rules of Kafka {version}"


def _kafka_version(text: str, known: Sequence[str]) -> str:
    release = ".".join(text.split(".")[:2])
    for each in (text, release):
        if each in known:
            return each
    others = [each for each in known if each.startswith(f"{release}.")]
    why = f" (the {release} releases differ: give {' or '.join(others)})" if others else ""
    raise argparse.ArgumentTypeError(f"{text!r}: expected {' or '.join(known)}{why}")


_LOOKS_LIKE_SECONDS = range(978_307_200, 253_402_300_800)
"""The years 2001 to 9999. Read as milliseconds they are all before 1979, long before Kafka."""


def time_ms(text: str) -> int:
    """Parse a time into epoch milliseconds; without a time zone it is UTC."""
    from datetime import UTC, datetime, timedelta

    if len(text) > _LONGEST_TIME:  # Python takes the rest for a fraction of a second, and drops it
        raise argparse.ArgumentTypeError(f"{shortened(text)}: expected milliseconds, in 64 bits")
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        if not -(2**63) <= number < 2**63:
            raise argparse.ArgumentTypeError(f"{text}: expected milliseconds that fit in 64 bits")
        if number in _LOOKS_LIKE_SECONDS:
            when = datetime.fromtimestamp(number, UTC).isoformat().replace("+00:00", "Z")
            raise argparse.ArgumentTypeError(
                f"{text}: looks like seconds ({when}), expected milliseconds: {number}000"
            )
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected epoch milliseconds or a time such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def point(text: str) -> Until:
    """Parse an offset or a time."""
    from kafka_log.image.replay import Until

    if text.isdecimal() and int(text) < _LARGEST_OFFSET:
        return Until(offset=int(text))
    try:
        return Until(timestamp=time_ms(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected an offset, epoch milliseconds, or a time such as"
            " 2026-01-31T12:00:00Z"
        ) from None
