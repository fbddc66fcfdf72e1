"""The rules about transactions and their coordinator: TRN."""

from kafka_log.checks.rules.rule import Rule, Severity

_W, _N = Severity.WARNING, Severity.NOTE

_STAYS = (
    "The transaction stays open. read_committed consumers stop at its first offset, and the "
    "cleaner does not go beyond it."
)
_IGNORED = "Nothing: a coordinator loads the last record of each transactional id."

TRANSACTION_RULES: dict[str, Rule] = {
    "TRN001": Rule(
        _N,
        "an open transaction",
        "Its coordinator ends it, at the latest after the transaction timeout. Until then, "
        "read_committed consumers stop at its first offset.",
        "Nothing, if its producer was at work. `kafka-forensics transactions --open` shows its age "
        "and timeout.",
    ),
    "TRN002": Rule(
        _W,
        "a hanging transaction",
        _STAYS,
        "Abort it on the running cluster with the command that `kafka-forensics transactions "
        "--hanging` prints. Compare with other replicas first: one of them may have the marker.",
    ),
    "TRN003": Rule(
        _W,
        "a state of a transactional id that cannot follow the one before it",
        _IGNORED,
        "Compare with other replicas of this partition. The table `transaction_state` shows every "
        "state of the id.",
    ),
    "TRN004": Rule(
        _W,
        "a transactional id whose producer epoch goes back",
        "The coordinator loads the older epoch, and accepts producers that were fenced.",
        "Compare with other replicas of this partition. Restart the producers of the id, so that "
        "the epoch is raised again.",
    ),
    "TRN005": Rule(
        _W,
        "a completed transaction without its marker in a partition",
        _STAYS,
        "Compare with other replicas: the marker was lost here, probably by an unclean leader "
        "election. If no replica has it, abort the transaction and write its records again.",
    ),
}
