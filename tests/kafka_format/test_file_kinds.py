"""Which files belong together, against Kafka's endings written down here."""

from kafka_format import file_kinds
from kafka_format.file_kinds import FileKind


def test_a_segment_is_a_log_and_three_indexes() -> None:
    endings = [kind.ending for kind in file_kinds.SEGMENT_KINDS]
    assert endings == [".log", ".index", ".timeindex", ".txnindex"]
    assert [kind.ending for kind in file_kinds.SEGMENT_INDEX_KINDS] == endings[1:]
    assert [kind.ending for kind in file_kinds.REMOTE_INDEX_KINDS] == endings[1:]


def test_a_broker_writes_no_transaction_index_without_an_aborted_transaction() -> None:
    written = {FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX}
    assert set(file_kinds.ALWAYS_WRITTEN_KINDS) == written


def test_local_and_remote_indexes_have_the_same_formats() -> None:
    assert file_kinds.OFFSET_INDEX_KINDS == (FileKind.OFFSET_INDEX, FileKind.REMOTE_OFFSET_INDEX)
    assert file_kinds.TIME_INDEX_KINDS == (FileKind.TIME_INDEX, FileKind.REMOTE_TIME_INDEX)
    assert file_kinds.TRANSACTION_INDEX_KINDS == (
        FileKind.TRANSACTION_INDEX,
        FileKind.REMOTE_TRANSACTION_INDEX,
    )
