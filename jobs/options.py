"""What verbs share: their options, how these are read, and how a verb ends.

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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from kafka_format.access import DEFAULT_MAX_DECOMPRESSED_BYTES
from kafka_format.shown_text import escaped, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import SupportsWrite

    from kafka_log.clock import Clock

CLEAN, FINDINGS, USAGE, COULD_NOT_RUN, HUNG_UP, INTERRUPTED = 0, 1, 2, 3, 129, 130

KAFKA_VERSIONS = ("4.3",)
"""Releases whose rules every verb knows, the newest last."""
_LARGEST = 2**63 - 1
_LONGEST_TIME = 64
_ESCAPE = "kafka-forensics-escape"
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)


class UsageError(Exception):
    """What the user asked for makes no sense."""


class CannotRunError(Exception):
    """What was asked for makes sense, but not on this machine."""


class HungUpError(KeyboardInterrupt):
    """The terminal is gone (SIGHUP): ends the work as Ctrl-C does."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of ending the process."""

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
        """`follow_links` and `max_decompressed_bytes`, which every verb has."""
        group = self.add_argument_group("how to read")
        group.add_argument(
            "--follow-links",
            action="store_true",
            help="follow symbolic links that lead out of the given paths",
        )
        group.add_argument(
            "--max-decompressed-bytes",
            type=_byte_count,
            default=DEFAULT_MAX_DECOMPRESSED_BYTES,
            metavar="BYTES",
            help="do not decode a batch whose records are larger than this; default: 256 MiB",
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Unlike the original, which keeps to itself that it could not print."""
        (file or sys.stderr).write(message)


def run(
    parser: Parser,
    argv: Sequence[str] | None,
    work: Callable[[argparse.Namespace], int],
    *,
    paths_of: Callable[[argparse.Namespace], Sequence[str]] = lambda arguments: arguments.paths,
) -> int:
    """Options to work to exit code: whatever happens, one line and no traceback.

    `paths_of` gives the evidence: all that is read lies there, unless links are followed.
    """
    _allow_open_files()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return _run(parser, argv, work, paths_of)
    from pipelines.session import SubmitStderr

    with contextlib.redirect_stderr(SubmitStderr()):
        return _run(parser, argv, work, paths_of)


def _allow_open_files() -> None:
    """As many as this user may open: a log that is open holds some for each of its segments."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has a hard limit nobody may reach
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
            sys.stderr.write(f"{parser.prog}: {escaped(str(error))}\n{parser.format_usage()}")
            return USAGE

    return guarded(parser.prog, work_on_options)


def _work_on_evidence(
    arguments: argparse.Namespace, work: Callable[[argparse.Namespace], int]
) -> int:
    """The work, by the rules for evidence; then whether the evidence is what it was before."""
    from kafka_format.access import Access, given, using, watching

    allowed = Access(
        roots=given(arguments.paths),
        follow_links=arguments.follow_links,
        max_decompressed_bytes=arguments.max_decompressed_bytes,
    )
    with using(allowed), watching() as watch:
        code = work(arguments)
        if getattr(arguments, "in_place", False):
            return code  # what changed, changed by our hand
        for error in watch.changes():
            sys.stderr.write(f"{escaped(f'{error.filename}: {error.strerror}')}\n")
            code = COULD_NOT_RUN
    if not getattr(arguments, "quiet", False):
        for path in sorted(watch.grown):
            sys.stderr.write(f"{escaped(path)}: note: it grew while it was read\n")
    return code


def guarded(name: str, work: Callable[[], int]) -> int:
    """Work to exit code; also where stdout or stderr cannot take what was found."""
    if sys.stderr is None:  # closed by who started us
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
        sys.stderr.write(f"{name}: stdout is closed\n")
        return COULD_NOT_RUN
    _escape_what_stdout_cannot_encode()
    try:
        code = work()
        sys.stdout.flush()
    except CannotRunError as error:
        sys.stderr.write(f"{name}: {escaped(str(error))}\n")
        return COULD_NOT_RUN
    except BrokenPipeError:  # whoever read has seen enough
        discard_stdout()
        return CLEAN
    except OSError as error:
        sys.stderr.write(f"{name}: {escaped(_blamed(error))}\n")
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
    """What Python would still flush at its end goes nowhere, instead of failing again."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # of a test, that is no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _blamed(error: OSError) -> str:
    """What failed, and why. Who writes files knows their names; what is written without is ours."""
    said = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {said}"
    return f"stdout cannot be written: {said}" if error.errno in _OF_WRITING else said


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace | None:
    """None when help was all that was wanted."""
    words, behind = _split(argv)
    try:
        arguments, unknown = parser.parse_known_intermixed_args(words)
    except SystemExit:
        return None
    known = [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001
    for word in unknown:
        raise UsageError(f"unknown argument {word}{nearest(word.partition('=')[0], known)}")
    arguments.paths = [*arguments.paths, *behind]
    return arguments


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Options and paths, and behind a `--` paths alone, which argparse takes for options here."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def require_paths(paths: Sequence[str]) -> None:
    if not paths:
        raise UsageError("no PATH given")
    if not all(paths):
        raise UsageError("a PATH is empty")  # of a shell's variable that is not set


def nearest(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """A hint for who mistyped, or typed only the beginning."""
    begun = [each for each in known if len(word) > 2 and each.startswith(word)]
    close = difflib.get_close_matches(word, begun or known, n=1, cutoff=0 if begun else cutoff)
    return f": did you mean {close[0]}?" if close else ""


def add_paths(parser: Parser, *, files: bool = True) -> None:
    """`paths`"""
    what = "partition directory or file" if files else "or partition directory"
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help=f"log dir, several in one directory, {what}"
    )


def add_partitions(parser: Parser) -> None:
    """Which partitions, their settings, and the time: what all verbs over partitions ask for."""
    add_paths(parser, files=False)
    add_selection(parser)
    add_settings(parser)
    add_clock(parser)


def add_running(parser: Parser, versions: Sequence[str] = KAFKA_VERSIONS) -> None:
    """How rows are shown, where the work is done, by whose rules."""
    add_format(parser)
    add_engine(parser)
    add_kafka_version(parser, versions)


def add_selection(parser: Parser) -> None:
    """`topics` and `partitions`: see `Selection.of`."""
    group = parser.add_argument_group("what to look at")
    group.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="GLOB",
        help="topics of this name; * and ? stand for letters; repeatable",
    )
    group.add_argument(
        "--partition",
        action="append",
        default=[],
        dest="partitions",
        type=_partition,
        metavar="N",
        help="partitions of this number; repeatable",
    )


def _byte_count(text: str) -> int:
    return natural(text, "a number of bytes, 1 to 2147483647", least=1, most=2**31 - 1)


def _partition(text: str) -> int:
    return natural(text, "a partition's number, 0 or more")


def offset(text: str) -> int:
    """For an option that takes one."""
    return natural(text, f"an offset, 0 to {_LARGEST}", most=_LARGEST)


def producer_id(text: str) -> int:
    """For an option that takes one: whatever a batch can have."""
    return natural(text, f"a producer id, up to {_LARGEST}", least=-_LARGEST - 1, most=_LARGEST)


def high_watermark(text: str) -> int:
    """For an option that takes one: an offset, or END."""
    from pipelines.partition_tasks import END

    return END if text == "end" else natural(text, "an offset, or `end`", most=_LARGEST)


def new_directory(text: str) -> str:
    """For an option that takes one."""
    if not text:  # of a shell's variable that is not set
        raise argparse.ArgumentTypeError("found nothing, expected a directory to be made")
    return text


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("found nothing, expected a file")
    with contextlib.suppress(OSError):  # whoever opens it says what is wrong
        status = Path(text).stat()
        if stat.S_ISREG(status.st_mode) and not status.st_size:  # also the kernel's, as /proc/kmsg
            raise argparse.ArgumentTypeError(f"{text}: found an empty file, expected settings")
    return text


def natural(text: str, expected: str, *, least: int = 0, most: float = math.inf) -> int:
    with contextlib.suppress(ValueError):
        number = int(text)
        if least <= number <= most:
            return number
    raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions are meant: of any of the topics, of any of the numbers; all, if none."""

    topics: tuple[str, ...] = ()
    partitions: frozenset[int] = frozenset()

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Selection:
        return cls(topics=tuple(arguments.topics), partitions=frozenset(arguments.partitions))

    def includes(self, topic: str, partition: int | None) -> bool:
        return (not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)) and (
            not self.partitions or partition in self.partitions
        )

    @property
    def text(self) -> str:
        """As it was given: `--topic orders --partition 0`."""
        topics = [f"--topic {glob}" for glob in self.topics]
        return " ".join([*topics, *(f"--partition {each}" for each in sorted(self.partitions))])

    @property
    def is_everything(self) -> bool:
        return not self.topics and not self.partitions


def add_settings(parser: Parser) -> None:
    """`config` and `set`: see kafka_log/settings.py."""
    group = parser.add_argument_group(
        "settings (from KRaft metadata in the log dir, then --config, then --set)"
    )
    group.add_argument(
        "--config",
        type=_file,
        metavar="FILE",
        help="Kafka's own names, as in server.properties",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one of them, such as retention.ms=60000; repeatable",
    )


def add_clock(parser: Parser, what: str = "the time to judge by") -> None:
    """`now`: see `clock`."""
    parser.add_argument(
        "--now",
        type=time_ms,
        metavar="TIME",
        help=f"{what}: epoch milliseconds or ISO 8601 (UTC); default: the clock",
    )


def clock(arguments: argparse.Namespace) -> Clock:
    from kafka_log.clock import FixedClock, system_clock

    return system_clock if arguments.now is None else FixedClock(arguments.now)


class Mode(Enum):
    """What may be written."""

    DRY_RUN = "dry-run"
    """Nothing."""
    OUTPUT = "output"
    """A copy, elsewhere."""
    IN_PLACE = "in-place"
    """The directory itself."""


def add_mode(parser: Parser) -> None:
    """`dry_run`, `output`, `in_place`, one of them: see `mode`."""
    group = parser.add_argument_group("what to write").add_mutually_exclusive_group()
    group.add_argument(
        "--dry-run", action="store_true", help="nothing: only tell what would be done (default)"
    )
    group.add_argument(
        "--output",
        type=new_directory,
        metavar="DIR",
        help="a copy as it would be afterwards, whole or not at all",
    )
    group.add_argument(
        "--in-place", action="store_true", help="the directory itself, if no broker has it"
    )


def mode(arguments: argparse.Namespace) -> Mode:
    if arguments.in_place:
        return Mode.IN_PLACE
    return Mode.DRY_RUN if arguments.output is None else Mode.OUTPUT


def add_format(parser: Parser) -> None:
    """`format`: text or json; `wide` for jobs/table.py; `quiet`"""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="a table (default), or a JSON object a line",
    )
    parser.add_argument("--wide", action="store_true", help="whole columns on a terminal, too")
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")


def add_engine(parser: Parser) -> None:
    """`engine`: for `pipelines.engine.run`"""
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        metavar="auto|local|spark",
        help="where to work: in processes of this machine, on Spark, or as the size demands",
    )


def add_kafka_version(parser: Parser, known: Sequence[str] = KAFKA_VERSIONS) -> None:
    """`kafka_version`, one of those known: X.Y for all releases of it, X.Y.Z for that one alone."""
    told = [f"{each} (that release alone)" if each.count(".") > 1 else each for each in known]
    parser.add_argument(
        "--kafka-version",
        type=lambda text: _kafka_version(text, known),
        default=known[-1],
        metavar="VERSION",
        help=f"whose rules to follow: {', '.join(told)}; default: the newest, {known[-1]}",
    )


def by_rules(arguments: argparse.Namespace) -> str:
    """For the end of a summary, where they are not the newest."""
    version = arguments.kafka_version
    return "" if version == KAFKA_VERSIONS[-1] else f", by the rules of Kafka {version}"


def _kafka_version(text: str, known: Sequence[str]) -> str:
    release = ".".join(text.split(".")[:2])
    for each in (text, release):
        if each in known:
            return each
    others = [each for each in known if each.startswith(f"{release}.")]
    why = f" (releases of {release} differ: expected {' or '.join(others)})" if others else ""
    raise argparse.ArgumentTypeError(f"{text!r}: known here: {', '.join(known)}{why}")


_LOOKS_LIKE_SECONDS = range(978_307_200, 253_402_300_800)
"""The years 2001 to 9999; as milliseconds they all lie before 1979, long before Kafka."""


def time_ms(text: str) -> int:
    """Epoch milliseconds; a time without a zone is UTC."""
    from datetime import UTC, datetime, timedelta

    if len(text) > _LONGEST_TIME:  # Python takes the rest for a fraction of a second, and drops it
        raise argparse.ArgumentTypeError(f"{shortened(text)}: expected milliseconds, in 64 bits")
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        if not -(2**63) <= number < 2**63:
            raise argparse.ArgumentTypeError(f"{text}: expected milliseconds, in 64 bits")
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
