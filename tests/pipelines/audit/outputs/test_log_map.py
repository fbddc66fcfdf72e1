"""Segments to scale, damage in its place."""

from kafka_log.checks.facts import PartitionFacts, SegmentSummary
from kafka_log.producers.transactions import OpenTransaction
from pipelines.audit.outputs.log_map import WIDTH, log_map


def segment(base, end, size, *times):
    least, most = times or (-1, -1)
    return SegmentSummary(
        path=f"/data/t-0/{base:020d}.log",
        base_offset=base,
        next_offset=end,
        size_in_bytes=size,
        min_timestamp=least,
        max_timestamp=most,
    )


def facts(*segments, open_transactions=()):
    return PartitionFacts(
        path="/data/t-0",
        topic="t",
        partition=0,
        log_start_offset=0,
        log_end_offset=segments[-1].next_offset if segments else None,
        segments=segments,
        open_transactions=open_transactions,
    )


def found(name, position=None, offset=None, severity="error"):
    return {
        "id": "LOG001",
        "severity": severity,
        "path": f"/data/t-0/{name}",
        "position": position,
        "offset": offset,
        "found": "x\n",
    }


TWO = (segment(0, 100, 300, 0, 1000), segment(100, 200, 100, 1000, 86_400_000))


def test_segments_and_damage_are_to_scale():
    findings = [
        found(f"{100:020d}.log", position=50),
        found(f"{100:020d}.index", severity="warning"),
        found("leader-epoch-checkpoint"),
        found("leader-epoch-checkpoint", offset=50),
    ]
    drawn = log_map(facts(*TWO), findings)
    assert [round(box.x) for box in drawn.boxes] == [0, WIDTH * 3 // 4]
    assert [round(box.width) for box in drawn.boxes] == [WIDTH * 3 // 4 - 1, WIDTH // 4 - 1]
    assert [(round(mark.x), mark.severity) for mark in drawn.marks] == [
        (WIDTH * 7 // 8, "error"),
        (WIDTH * 3 // 4, "warning"),
        (WIDTH * 3 // 8, "error"),
    ]
    assert drawn.marks[0].label == f"LOG001 {100:020d}.log: found x\\x0a"
    assert drawn.size == "400 B"
    assert drawn.offsets == "offsets 0 to 200"
    assert drawn.times == "1970-01-01T00:00:00.000Z to 1970-01-02T00:00:00.000Z"


def test_an_open_transaction_is_a_lane_up_to_the_end():
    transaction = OpenTransaction(7, 1, 0, 150, 160, None, 0)
    drawn = log_map(facts(*TWO, open_transactions=(transaction,)), [])
    (lane,) = drawn.lanes
    assert (round(lane.x), round(lane.width)) == (WIDTH * 7 // 8, WIDTH // 8)
    assert lane.label == "producer 7 epoch 1, open since offset 150"
    assert drawn.height > log_map(facts(*TWO), []).height


def test_of_many_segments_the_newest_are_drawn_and_of_none_nothing():
    drawn = log_map(facts(*(segment(n, n + 1, 0) for n in range(500))), [])
    assert (len(drawn.boxes), drawn.more) == (400, 100)
    assert drawn.times == ""
    assert log_map(facts(), []) is None
