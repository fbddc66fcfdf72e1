"""What several partitions, or replicas, of `__transaction_state` say together."""

import pytest

from kafka_log.producers.hanging_transactions import KnownIds, why_ids_are_missing
from kafka_log.producers.transactional_ids import (
    Coordinator,
    CoordinatorState,
    StateRecord,
    TransactionalId,
    TransactionStatus,
    status_name,
)
from kafka_log.producers.transactions import OpenTransaction

HOUR = 3_600_000


def state(name="pay", *, producer_id=7, epoch=0, updated=0, status=TransactionStatus.ONGOING):
    owner = TransactionalId(name, producer_id, epoch, status, frozenset({("orders", 0)}))
    return CoordinatorState(owner, 60_000, 0, updated, False)


def coordinator(*states):
    made = Coordinator()
    for offset, each in enumerate(states):
        made.add(StateRecord(offset, each.owner.transactional_id, each, "", 0))
    return made


def test_states_have_kafkas_names():
    names = [status_name(each) for each in TransactionStatus]
    assert names[:4] == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort"]
    assert names[4:] == ["CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
    assert status_name(9) == "Unknown(9)"


def test_an_earlier_producer_still_leads_to_its_id():
    known = KnownIds.of(coordinator(state(producer_id=7), state(producer_id=8)), None)
    assert (known.transactional_id(7), known.transactional_id(8)) == ("pay", "pay")
    assert known.transactional_id(9) is None
    assert (known.timeout_ms("pay"), known.timeout_ms(None)) == (60_000, None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_replicas_the_newer_state_counts(order):
    replicas = [coordinator(state(epoch=1, updated=5)), coordinator(state(epoch=2, updated=6))]
    known = KnownIds.together([(0, replicas[each]) for each in order], None)
    assert known.owners[7].producer_epoch == 2


def test_an_id_that_is_being_removed_owns_nothing():
    dead = coordinator(state(status=TransactionStatus.DEAD))
    assert KnownIds.of(dead, None).owners == {}


@pytest.mark.parametrize(
    ("found", "expected", "why"),
    [
        ((), None, "no partition of __transaction_state is here"),
        ((), 3, "no partition of __transaction_state is here"),
        ((0, 1, 2), None, None),
        ((0, 2), None, "1 of 3 partitions of __transaction_state are not here"),
        ((0, 2), 50, "48 of 50 partitions of __transaction_state are not here"),
        ((0, 1), 2, None),
    ],
)
def test_ids_are_all_known_if_every_partition_is_here(found, expected, why):
    assert why_ids_are_missing(found, expected) == why


def test_without_all_ids_only_a_known_producer_can_hang():
    some = KnownIds.of(coordinator(state()), "1 of 2")
    known, unknown = (OpenTransaction(each, 0, -1, 0, 0, 0, 0) for each in (7, 8))
    assert some.why_hanging(unknown, ("orders", 1), now_ms=HOUR) is None
    assert some.why_hanging(known, ("orders", 0), now_ms=HOUR) is None
    assert some.why_hanging(known, ("orders", 1), now_ms=HOUR) == (
        "pay is ONGOING without this partition"
    )
