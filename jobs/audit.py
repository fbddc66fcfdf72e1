"""`kafka-forensics audit`: what is wrong, what a restart does about it, and what to do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from jobs import audit_outputs, options, selected_partitions
from jobs.running import warn_running
from kafka_format.shown_text import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.inventory.inventory import Inventory
    from pipelines.audit.audit import Running
    from pipelines.audit.plan import AuditRequest
    from pipelines.audit.report import AuditReport
    from pipelines.engine.engine import Failure

_DESCRIPTION = """\
Check log dirs: is everything there, readable and consistent? Prints a verdict, the findings with
what a restart does about them, and what was not checked. By default every record is decoded, every
checksum verified, and files are compared with each other. The evidence is only read.
"""
_EPILOG = """\
example:
  Check a broker in CI: fail for errors and warnings, except for those that are known.
    kafka-forensics audit /data --fail-on warning --baseline known.json --junit audit.xml

exit codes:
  0  no findings at or above --fail-on
  1  findings at or above --fail-on
  2  wrong usage
  3  a file that should have been checked could not be read, or no Kafka files were found

All checks: docs/findings. Outputs and fields: docs/jobs/audit.md. In CI: docs/ci.md
"""


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("audit", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    options.add_selection(parser)
    options.add_settings(parser)
    options.add_clock(parser)
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--headers",
        action="store_true",
        help="read only batch headers and the files next to logs: no checksums, no records",
    )
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="report only this rule, such as LOG001; repeatable, or with commas",
    )
    group.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="ID",
        help="do not report this rule; repeatable, or with commas",
    )
    group.add_argument(
        "--explain", action=_Explain, metavar="ID", help="print the page of a rule, and end"
    )
    audit_outputs.add_arguments(parser)
    options.add_running(parser)
    return parser


class _Explain(argparse.Action):
    """Prints a page and ends, as --help does: no PATH is needed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        from pipelines.audit.pages import page
        from pipelines.audit.rule_selection import UnknownRuleError, rule_id

        del namespace, option_string
        try:
            print(page(rule_id(str(values))).rstrip("\n"))
        except UnknownRuleError as error:
            raise options.UsageError(f"--explain: {error}") from None
        parser.exit()


def _work(arguments: argparse.Namespace) -> int:
    from kafka_log.inventory.scan import scan
    from pipelines.audit.report import AuditReport

    report = AuditReport(
        paths=tuple(arguments.paths),
        rules=audit_outputs.rule_selection(arguments),
        show_data=arguments.show_data,
        now_ms=options.clock(arguments)(),
    )
    audit_outputs.check(arguments, report)
    inventory = scan(arguments.paths)
    warn_running(each.path for each in inventory.log_dirs)
    selected_partitions.report_links(arguments, inventory)
    missing = selected_partitions.report_missing(arguments, inventory, log_dirs_count=True)
    if not inventory.log_dirs and _say_unreadable(inventory):
        return options.COULD_NOT_RUN
    if missing >= set(arguments.paths):
        return options.COULD_NOT_RUN
    _audit(arguments, inventory, report)
    for path in sorted(missing - report.unread.keys()):
        report.add_missing(path)
    for path, reason in report.unread.items():
        if path not in missing:  # reported before
            say(f"{path}: {reason}")
    audit_outputs.write(arguments, report)
    return report.exit_code(arguments.fail_on)


def _say_unreadable(inventory: Inventory) -> bool:
    """Report what could not be read; return whether that is everything."""
    from kafka_log.inventory.inventory import Trouble

    unreadable = [each for each in inventory.problems if each.trouble is Trouble.UNREADABLE]
    if len(unreadable) < len(inventory.problems):
        return False
    for each in unreadable:
        say(f"{each.path}: {each.message}")
    return bool(unreadable)


def _audit(arguments: argparse.Namespace, inventory: Inventory, report: AuditReport) -> None:
    from jobs.outcome import error_text
    from kafka_format.columnar.compilation import warn_if_slow
    from kafka_format.errors import FormatError
    from kafka_log.config.settings import SettingsError
    from pipelines.audit.audit import audit_inventory
    from pipelines.engine.engine import EngineError

    warn_if_slow(sum(each.size_in_bytes for each in inventory.log_dirs))
    try:
        audit_inventory(inventory, _request(arguments, report), report, _running(arguments))
    except SettingsError as error:
        raise options.UsageError(str(error)) from error
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error
    except (FormatError, OSError) as error:
        raise options.UsageError(f"--config: {error_text(error)}") from error


def _request(arguments: argparse.Namespace, report: AuditReport) -> AuditRequest:
    from kafka_log.checks.facts import Depth
    from pipelines.audit.plan import AuditRequest

    return AuditRequest(
        paths=report.paths,
        now_ms=report.now_ms,
        depth=Depth.HEADERS if arguments.headers else Depth.FULL,
        config=arguments.config,
        overrides=tuple(arguments.set),
        includes=options.Selection.of(arguments).includes,
    )


def _running(arguments: argparse.Namespace) -> Running:
    from pipelines.audit.audit import Running
    from pipelines.engine.progress import progress_bar

    def failed(failure: Failure[Any]) -> None:
        say(*failure.details.split("\n")[:-1])

    bars = (None, None) if arguments.quiet else (progress_bar("segments"), progress_bar("headers"))
    return Running(
        engine=arguments.engine,
        on_progress=bars[0],
        on_partition_progress=bars[1],
        on_failure=failed,
    )


if __name__ == "__main__":
    raise SystemExit(main())
