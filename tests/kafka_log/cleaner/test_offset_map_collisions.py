"""Keys made to look alike: the same to Kafka's map, which knows a key by its MD5, not to ours."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from kafka_format.batch import encode_batch
from kafka_format.columnar.compilation import can_compile
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_log.cleaner.columns import map_kernels
from kafka_log.cleaner.columns.key_table import KeyTable
from kafka_log.cleaner.offset_map import NOT_FOUND, Keys, OffsetMap
from kafka_log.disk.files import DiskFiles
from tests.compiled import BOTH_WAYS
from tests.kafka_log.cleaner.cleaning import run_pass
from tests.kafka_log.cleaner.stories import Story
from tests.kafka_log.compare import scratch
from tests.kafka_log.driver import Session
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

# Two messages of two blocks by Wang, Feng, Lai and Yu (Collisions for Hash Functions, 2004), and
# two of one block by Stevens (Single-block collision attack on MD5, 2012).
_WANG = bytes.fromhex(
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89"
    "55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b"
    "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
    "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
)
_STEVENS = bytes.fromhex(
    "4dc968ff0ee35c209572d4777b721587d36fa7b21bdc56b74a3dc0783e7b9518"
    "afbfa200a8284bf36e8e4b55b35f427593d849676da0d1555d8360fb5f07fea2"
)


def _flipped(message: bytes, **bits: int) -> bytes:
    changed = bytearray(message)
    for position, bit in bits.items():
        changed[int(position.removeprefix("at_"))] ^= bit
    return bytes(changed)


PAIRS = {
    "79054025255fb1a26e4bc422aef54eb4": (
        _WANG,
        _flipped(_WANG, at_19=128, at_45=128, at_59=128, at_83=128, at_109=128, at_123=128),
    ),
    "008ee33a9d58b51cfeb425b0959121c9": (_STEVENS, _flipped(_STEVENS, at_35=2, at_55=128)),
}


def _story(*keys: bytes) -> Story:
    """Each key once, a batch each."""
    story = Story()
    for key in keys:
        story.append(encode_batch([SimpleRecord(START, key, b"precious")]))
    return story.roll().clean()


def _ours(story: Story, keys: Keys, *, columnar: bool | None = None) -> list[int]:
    """Offsets that our cleaner leaves."""
    with scratch() as folder:
        directory = folder / "topic-0"
        directory.mkdir()
        arguments = {"config": story.config, "time": START, "log_start_offset": 0}
        session = Session(DiskFiles(directory), arguments | {"recovery_point": 0})
        (one,) = story.passes
        for step in one.steps:
            session.step(step)
        found = run_pass(session, replace(one, columnar=columnar), None, keys)
        assert "error" not in found
        data = (directory / f"{0:020d}.log").read_bytes()
        offsets = [each.offset for batch in LogFile(data).batches() for each in batch.records()]
        session.close("crash")
        return offsets


@pytest.mark.parametrize("md5", PAIRS)
def test_the_keys_differ_and_their_md5_does_not(md5: str) -> None:
    one, other = PAIRS[md5]
    assert one != other
    for key in (one, other):
        assert hashlib.md5(key, usedforsecurity=False).hexdigest() == md5


@pytest.mark.parametrize("md5", PAIRS)
def test_kafka_takes_keys_of_one_md5_for_one_key_and_drops_a_record(
    oracle: Oracle, md5: str
) -> None:
    (left,) = _story(*PAIRS[md5]).reported(oracle, Keys.MD5)  # which is what ours does if asked to
    assert left.offsets == [1]
    assert left.stats["messages_written"] == 1


@pytest.mark.parametrize("md5", PAIRS)
def test_our_map_keeps_both_records_and_so_do_exact_keys(md5: str) -> None:
    story = _story(*PAIRS[md5])
    assert _ours(story, Keys.MD5) == [1]
    assert _ours(story, Keys.HASHED) == [0, 1]
    assert _ours(story, Keys.HASHED, columnar=False) == [0, 1]
    assert _ours(story, Keys.EXACT) == [0, 1]


def test_a_tail_makes_any_number_of_such_pairs_and_kafka_loses_one_of_each(
    oracle: Oracle,
) -> None:
    """MD5 goes on from equal states: who has a pair has one for every tail."""
    one, other = PAIRS["008ee33a9d58b51cfeb425b0959121c9"]
    tails = [b"/account/%d" % i for i in range(20)]
    story = _story(*[key + tail for tail in tails for key in (one, other)])
    (left,) = story.reported(oracle, Keys.MD5)
    assert left.offsets == list(range(1, 40, 2))
    assert _ours(story, Keys.HASHED) == _ours(story, Keys.EXACT) == list(range(40))


@pytest.mark.parametrize("md5", PAIRS)
def test_the_maps_tell_such_keys_apart_unless_they_go_by_md5(md5: str) -> None:
    one, other = PAIRS[md5]
    for keys, found in ((Keys.HASHED, NOT_FOUND), (Keys.EXACT, NOT_FOUND), (Keys.MD5, 7)):
        offset_map = OffsetMap(2400, keys=keys)
        offset_map.put(one, 7)
        assert offset_map.get(other) == found


@pytest.mark.skipif(
    not can_compile(), reason="needs compiled kernels: numba is missing or switched off"
)
def test_a_table_hashes_by_its_own_secret() -> None:
    """So that keys crafted against one run are nothing special to the next."""
    tables = [KeyTable(2400) for _ in range(3)]
    assert len({table._secret for table in tables}) == 3
    same = [KeyTable(2400, secret=bytes(range(16))) for _ in range(2)]
    assert same[0]._secret == same[1]._secret


@pytest.mark.parametrize("compiled", BOTH_WAYS)
@pytest.mark.parametrize(
    ("length", "expected"),
    [  # SipHash-2-4 of 128 bits by its authors: key 00 01 .. 0f, input 00 01 .. of some length
        (2, "8177228da4a45dc7fca38bdef60affe4"),
        (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
        (9, "264499060ad9baabc47f8b02bb6d71ed"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
        (17, "473d06e8738db89854c066c47ae47740"),
        (31, "2939b0183223fafc1723de4f52c43d35"),
        (32, "7c3956ca5eeafc3e363e9d556546eb68"),
        (55, "67f14984c7da791248e32bb5922583da"),
        (63, "5150d1772f50834a503e069a973fbd7c"),
    ],
)
def test_the_hash_is_that_of_its_authors(*, compiled: bool, length: int, expected: str) -> None:
    data = np.arange(64, dtype=np.uint8)
    key = [int.from_bytes(bytes(data[at : at + 8]), "little", signed=True) for at in (0, 8)]
    source = data if compiled else data.data
    found = map_kernels.load(compiled=compiled).siphash(source, 0, length, *key)
    assert b"".join(int(each).to_bytes(8, "little", signed=True) for each in found).hex() == (
        expected
    )
