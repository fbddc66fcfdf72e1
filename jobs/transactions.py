"""`kafka-forensics transactions`: print transactions, their producers and transactional ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting, selected_partitions
from jobs.outcome import VerbOutcome, error_text
from jobs.table import human_duration, human_size, json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jobs.outcome import Row
    from jobs.places import Places
    from jobs.selected_partitions import SelectedPartitions
    from pipelines.engine.partition_tasks import PartitionTask
    from pipelines.transactions import CoordinatorLog, Statistics

_DESCRIPTION = """\
Print the transactions of every partition: hanging and open ones first, then counts by partition and
by transactional id. For a hanging one, print the command that aborts it. They come from the logs,
their producer state and __transaction_state together. Nothing is written.
"""
_EPILOG = """\
example:
  Which transactions block consumers, and how are they aborted?
    kafka-forensics transactions /data --hanging

exit codes:
  0  the transactions were printed; open and hanging ones do not change the code
  1  damage may hide transactions, or a file is malformed
  2  wrong usage
  3  something could not be read, or no Kafka files were found

All columns and JSON fields: docs/jobs/transactions.md
"""
_MINUTE_MS = 60_000
_NUMBERS = ("producer", "epoch", "first", "last", "marker", "age", "timeout", "records", "size")
_COLUMNS = (
    *("partition", "state", "transactional id", "producer", "epoch", "first", "last", "marker"),
    *("age", "timeout", "records", "size", "blocks"),
)
_COUNTS = ("open", "hanging", "committed", "aborted", "empty", "records", "size")
_BY_ID = ("transactional id", "state", "producer", "epoch", "timeout", "partitions", *_COUNTS)
_IN_FLIGHT = ("hanging", "open")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("transactions", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    group = parser.add_argument_group("transactions")
    group.add_argument(
        "--open", action="store_true", help="only transactions without a marker, also hanging ones"
    )
    group.add_argument("--hanging", action="store_true", help="only transactions that hang")
    group.add_argument(
        "--transactional-id",
        action="append",
        default=[],
        metavar="ID",
        help="only this transactional id and its producers; repeatable",
    )
    group.add_argument(
        "--producer-id",
        action="append",
        default=[],
        type=options.producer_id,
        metavar="N",
        help="only this producer; repeatable",
    )
    group.add_argument(
        "--max-transaction-timeout",
        type=_minutes,
        default=15,
        metavar="MINUTES",
        help="how long a producer must be idle before its open transaction can hang, as in"
        " kafka-transactions find-hanging; default: 15",
    )
    group.add_argument(
        "--all-directories",
        action="store_true",
        help="also directories that a broker does not serve: deleted, stray and future ones",
    )
    options.add_running(parser)
    return parser


def _minutes(text: str) -> int:
    return options.natural(text, "a number of minutes, 0 or more", most=2**31 - 1)


@dataclass(slots=True)
class _Filter:
    """Which rows were asked for."""

    states: tuple[str, ...] | None
    """The states of transactions to print; None for all."""
    transactional_ids: frozenset[str]
    producer_ids: frozenset[int]

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> _Filter:
        states = _IN_FLIGHT if arguments.open else None
        return cls(
            states=("hanging",) if arguments.hanging else states,
            transactional_ids=frozenset(arguments.transactional_id),
            producer_ids=frozenset(arguments.producer_id),
        )

    @property
    def is_everything(self) -> bool:
        return self.states is None and not self.lists_ended

    @property
    def lists_ended(self) -> bool:
        """Whether a table lists the transactions that have ended one by one."""
        return bool(self.transactional_ids or self.producer_ids)

    def includes(self, row: Row) -> bool:
        """Whether a row is wanted. Other kinds of rows have no state of a transaction."""
        if self.states is not None and (
            row["kind"] != "transaction" or row["state"] not in self.states
        ):
            return False
        if self.transactional_ids and row["transactional_id"] not in self.transactional_ids:
            return False
        return not self.producer_ids or row["producer_id"] in self.producer_ids


@dataclass(slots=True)
class _Summed:
    """What tables and summary need of the rows, which are not kept."""

    listed: list[Row] = field(default_factory=list)
    """Transactions that the first table lists."""
    partitions: dict[tuple[str, str], Statistics] = field(default_factory=dict)
    """By name and path."""
    ids: dict[str, Statistics] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS[:5], 0))
    blocked: set[str] = field(default_factory=set)
    producers: int = 0

    def add_partitions(self, tasks: Iterable[PartitionTask]) -> None:
        """Count from zero: a partition without transactions is shown as such."""
        from pipelines.source.tables.inventory import DIRECTORY_STATES
        from pipelines.transactions import Statistics

        for task in tasks:
            if not task.is_metadata_log:
                state = DIRECTORY_STATES[task.kind]
                name = _name(task.topic, task.partition, state)
                self.partitions[name, task.path] = Statistics()

    def add(self, row: Row, *, lists_ended: bool) -> None:
        from pipelines.transactions import Statistics

        if row["kind"] == "producer":
            self.producers += 1
            return
        name = (_partition_name(row), row["path"])
        self.partitions.setdefault(name, Statistics()).add(row)
        if row["transactional_id"] is not None and row["directory_state"] == "live":
            self.ids.setdefault(row["transactional_id"], Statistics()).add(row)
        self.states["empty" if row["is_empty"] else row["state"]] += 1
        if row["holds_last_stable_offset"]:
            self.blocked.add(row["path"])
        if lists_ended or row["state"] in _IN_FLIGHT or row["holds_last_stable_offset"]:
            self.listed.append(row)


def _name(topic: str, partition: int, state: str) -> str:
    name = f"{topic}-{partition}"
    return name if state == "live" else f"{name} ({state})"


def _partition_name(row: Row) -> str:
    return _name(row["topic"], row["partition"], row["directory_state"])


def _work(arguments: argparse.Namespace) -> int:
    from kafka_log.names import DirectoryKind
    from pipelines.transactions import ReadTransactions, known_ids

    found = selected_partitions.find(arguments)
    selected_partitions.skip_empty_partitions(arguments, found)
    if not arguments.all_directories:
        found.tasks[:] = [each for each in found.tasks if each.kind is DirectoryKind.PARTITION]
    outcome = VerbOutcome.of(found)
    logs = _coordinator_logs(arguments, found, outcome)
    known = known_ids(logs, found.metadata)
    wanted = _Filter.of(arguments)
    function = ReadTransactions(
        known=known,
        max_timeout_ms=arguments.max_transaction_timeout * _MINUTE_MS,
        producers=wanted.states is None,
        ended=wanted.states is None,
    )
    summed = _Summed()
    if wanted.is_everything:
        summed.add_partitions(found.tasks)
    is_json = arguments.format == "json"
    for row in rewriting.task_rows(arguments, "transactions", found.tasks, function, outcome):
        if row["kind"] == "damage":
            outcome.damaged.add(row["path"])
            outcome.report(row["message"])
        elif wanted.includes(row):
            summed.add(row, lists_ended=wanted.lists_ended)
            if is_json:
                print(json_line(row))
    ids = [row for row in _id_rows(arguments, logs, summed) if wanted.includes(row)]
    if is_json:
        for row in ids:
            print(json_line(row))
    else:
        _print_tables(arguments, summed, ids, found.places)
    if found.tasks and not arguments.quiet:
        if known.missing is not None and any(summed.states.values()):
            say(f"transactional ids may be unknown: {known.missing}")
        say(_summary(summed, len(ids)))
    return outcome.exit_code


def _coordinator_logs(
    arguments: argparse.Namespace, found: SelectedPartitions, outcome: VerbOutcome
) -> list[CoordinatorLog]:
    from pipelines.transactions import CoordinatorLog, coordinator_logs

    partitions = () if found.inventory is None else found.inventory.partitions()
    logs = []
    for each in coordinator_logs(
        (partition for _, partition in partitions), all_directories=arguments.all_directories
    ):
        if isinstance(each, CoordinatorLog):
            logs.append(each)
            for problem in each.coordinator.problems:
                outcome.damaged.add(each.path)
                outcome.report(str(problem))
        else:
            path, error = each
            message = error_text(error)
            outcome.fail(path, message)
            outcome.report(message)
    return logs


def _id_rows(
    arguments: argparse.Namespace, logs: Iterable[CoordinatorLog], summed: _Summed
) -> Iterator[Row]:
    """Yield the rows of ids with their counts. A selection chooses those of its partitions."""
    from pipelines.transactions import TRANSACTION_STATE, Statistics

    selection = options.Selection.of(arguments)
    now_ms = options.clock(arguments)()
    for log in logs:
        is_selected = selection.includes(TRANSACTION_STATE, log.partition)
        for row in log.rows(now_ms):
            name = row["transactional_id"]
            owner = log.coordinator.states[name].owner
            if (
                is_selected
                or name in summed.ids
                or any(selection.includes(*each) for each in owner.partitions)
            ):
                statistics = summed.ids.get(name) or Statistics()
                yield row | {"transactions": statistics.fields()}


# ------------------------------------------------------------------------------------- as text


def _print_tables(
    arguments: argparse.Namespace, summed: _Summed, ids: Sequence[Row], places: Places
) -> None:
    order = {state: place for place, state in enumerate((*_IN_FLIGHT, "aborted", "committed"))}
    listed = sorted(summed.listed, key=lambda row: order[row["state"]])
    tables = [
        (
            places.header(_COLUMNS),
            [places.cells(row["path"], _cells(row)) for row in listed],
        ),
        (
            places.header(("partition", *_COUNTS)),
            [
                places.cells(path, [name, *_counts(each.fields())])
                for (name, path), each in summed.partitions.items()
            ],
        ),
        (_BY_ID, [_id_cells(row) for row in ids]),
    ]
    is_first = True
    for header, lines in tables:
        if not lines:
            continue
        if not is_first:
            print()
        is_first = False
        for line in table(header, lines, right=(*_NUMBERS, *_COUNTS), wide=arguments.wide):
            print(line)
        if header is tables[0][0]:
            for row in listed:
                if row["abort_command"] is not None:
                    print(f"to abort it: {row['abort_command']}")


def _cells(row: Row) -> list[object]:
    age, timeout = row["age_ms"], row["timeout_ms"]
    return [
        _partition_name(row),
        row["state"],
        row["transactional_id"],
        row["producer_id"],
        row["producer_epoch"],
        row["first_offset"],
        row["last_offset"],
        row["marker_offset"],
        None if age is None or age < 0 else human_duration(age),
        None if timeout is None else human_duration(timeout),
        row["records"],
        human_size(row["size_in_bytes"]),
        f"last stable offset {row['first_offset']}" if row["holds_last_stable_offset"] else None,
    ]


def _counts(fields: Mapping[str, Any]) -> list[object]:
    return [*(fields[name] for name in _COUNTS[:-1]), human_size(fields["size_in_bytes"])]


def _id_cells(row: Row) -> list[object]:
    return [
        row["transactional_id"],
        row["state"],
        row["producer_id"],
        row["producer_epoch"],
        human_duration(row["timeout_ms"]),
        ", ".join(row["partitions"]) or None,
        *_counts(row["transactions"]),
    ]


def _summary(summed: _Summed, ids: int) -> str:
    states = summed.states
    counts = ", ".join(f"{states[name]:,} {name}" for name in _COUNTS[:5])
    return (
        f"{counted(sum(states.values()), 'transaction')}: {counts};"
        f" {counted(len(summed.blocked), 'partition')} blocked,"
        f" {counted(summed.producers, 'producer')}, {counted(ids, 'transactional id')}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
