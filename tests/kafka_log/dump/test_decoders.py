"""The texts of kafka-dump-log's decoders: some by hand, the rest beside the original itself."""

import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError, MalformedRecordError
from kafka_format.message import encode_message
from kafka_format.schemas import group, metadata, remote
from kafka_log.dump.decoders import (
    Decoded,
    cluster_metadata_decoder,
    control_record_text,
    java_double,
    json_text,
    offsets_decoder,
    remote_log_metadata_decoder,
    share_group_state_decoder,
    transaction_log_decoder,
)
from tests.kafka_format.make_message_vectors import VECTORS
from tests.oracle.client import Oracle, record

Decoder = Callable[..., Decoded]
Pair = tuple[bytes | None, bytes | None]

DECODERS: dict[str, tuple[str, Decoder]] = {
    "group": ("--offsets-decoder", offsets_decoder),
    "transaction": ("--transaction-log-decoder", transaction_log_decoder),
    "share": ("--share-group-state-decoder", share_group_state_decoder),
    "metadata": ("--cluster-metadata-decoder", cluster_metadata_decoder),
    "remote": ("--remote-log-metadata-decoder", remote_log_metadata_decoder),
}
OFFSET_KEY = bytes.fromhex("000100016700017400000002")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# --- by hand ---


def test_committed_offset() -> None:
    value = unhex("0004 0000000000000003 00000000 01 000001a1e2583e51 01 00 10") + bytes(15) + b"\2"
    assert offsets_decoder(OFFSET_KEY, value, offset=9) == (
        '{"type":"1","data":{"group":"g","topic":"t","partition":2}}',
        (
            '{"version":"4","data":{"offset":3,"leaderEpoch":0,"metadata":"",'
            '"commitTimestamp":1794798796369,"topicId":"AAAAAAAAAAAAAAAAAAAAAg"}}'
        ),
    )


def test_tombstone() -> None:
    assert offsets_decoder(OFFSET_KEY, None, offset=9).value == "<DELETE>"


@pytest.mark.parametrize("type_id", [99, -1, 9, 18, 24])
def test_type_that_4_3_1_does_not_know(type_id: int) -> None:
    key = type_id.to_bytes(2, "big", signed=True) + b"\0\1g"
    text = f"Unknown record type {type_id} at offset 9, skipping."
    assert offsets_decoder(key, b"\0\0", offset=9) == (text, None)


def test_version_that_4_3_1_does_not_know() -> None:
    assert offsets_decoder(OFFSET_KEY, b"\0\5", offset=9) == (
        "Error at offset 9, skipping. Found an unknown record version 5 for 1 type",
        None,
    )


def test_record_without_a_key_is_an_error_where_the_original_ends() -> None:
    with pytest.raises(MalformedRecordError, match="no key at offset 9"):
        offsets_decoder(None, None, offset=9)


def test_metadata_record() -> None:
    value = unhex("01 0c 00 11 6d657461646174612e76657273696f6e 001e 00")
    assert cluster_metadata_decoder(None, value, offset=9) == (
        None,
        (
            '{"type":"FEATURE_LEVEL_RECORD","version":0,'
            '"data":{"name":"metadata.version","featureLevel":30}}'
        ),
    )
    assert cluster_metadata_decoder(None, unhex("01 1d 00 00000bb8 00"), offset=9).value == (
        "Error at 9, skipping. org.apache.kafka.common.errors.UnsupportedVersionException: "
        "Unknown metadata id 29"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.05, "0.05"),
        (1234.5, "1234.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.999, "9999999.999"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (-1.1e-5, "-1.1E-5"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2e23, "2.0E23"),  # Java 17 says 1.9999999999999998E23, later ones this
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_laid_out_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


def test_json_is_jacksons() -> None:
    tree = {"a": [1, True, False, None, 2.5, float("inf")], 'b"': 'é\n\x1f\x7f\\"/', "c": {}}
    assert json_text(tree) == (
        '{"a":[1,true,false,null,2.5,"Infinity"],"b\\"":"é\\n\\u001F\x7f\\\\\\"/","c":{}}'
    )


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("0000 0000", "0000 00000007", "endTxnMarker: ABORT coordinatorEpoch: 7"),
        ("0000 0001", "0009 ffffffff ee", "endTxnMarker: COMMIT coordinatorEpoch: -1"),
        ("0000 0063", "00", "controlType: UNKNOWN(99)"),
        ("0000 0004", "0000 00", 'SnapshotFooter {"version":0}'),
    ],
)
def test_control_records(key: str, value: str, text: str) -> None:
    assert control_record_text(unhex(key), unhex(value)) == text


def test_control_record_that_cannot_be_read_is_an_error_where_the_original_ends() -> None:
    with pytest.raises(FormatError):
        control_record_text(unhex("0000 0001"), b"")


# --- beside the original ---


def originals(oracle: Oracle, folder: Path, flag: str, pairs: list[Pair], **batch: Any) -> str:
    """What the original prints behind the batch's line."""
    path = folder / "00000000000000000000.log"
    records = [record(0, key, value) for key, value in pairs]
    path.write_bytes(oracle.build_batch({"records": records, **batch}))
    printed = oracle.dump(flag, "--skip-record-metadata", "--files", path).stdout
    return printed.split("\n", 3)[3]


def ours(decode: Decoder, pairs: list[Pair]) -> Iterator[str]:
    for offset, (key, value) in enumerate(pairs):
        decoded = decode(key, value, offset=offset)
        key_text = "" if decoded.key is None else f" key: {decoded.key}"
        value_text = "" if decoded.value is None else f" payload: {decoded.value}"
        yield f"|{key_text}{value_text}\n"


def assert_same(oracle: Oracle, folder: Path, kind: str, pairs: list[Pair]) -> None:
    flag, decode = DECODERS[kind]
    printed = originals(oracle, folder, flag, pairs)
    at = 0
    for (key, value), text in zip(pairs, ours(decode, pairs), strict=True):
        assert printed[at : at + len(text)] == text, (key, value)
        at += len(text)
    assert at == len(printed)


def damaged(data: bytes, draw: random.Random) -> Iterator[bytes]:
    yield data
    yield data + b"\0"
    for _ in range(12):
        yield data[: draw.randrange(len(data))]
    for _ in range(40):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        yield bytes(flipped)
    for _ in range(12):
        at = draw.randrange(len(data))
        extra = bytes(draw.choices([0, 1, 0x7F, 0x80, 0xFF, 0xED, 0xA0], k=draw.randrange(1, 7)))
        yield data[:at] + extra + data[at:]


@pytest.mark.parametrize("kind", DECODERS)
def test_records_of_every_type_and_version_whole_and_damaged(
    oracle: Oracle, tmp_path: Path, kind: str
) -> None:
    examples = [each for each in json.loads(VECTORS.read_text("utf-8")) if each["set"] == kind]
    keys = {each["type"]: unhex(each["stored"]) for each in examples if each["part"] == "key"}
    draw = random.Random(kind)
    pairs: list[Pair] = [(None, None)] if kind in ("metadata", "remote") else []
    for each in examples:
        stored = unhex(each["stored"])
        if each["part"] == "key":
            pairs += [(key, None) for key in damaged(stored, draw)]
        else:
            pairs += [(keys.get(each["type"]), value) for value in damaged(stored, draw)]
    assert_same(oracle, tmp_path, kind, pairs)


def test_members_of_classic_groups(oracle: Oracle, tmp_path: Path) -> None:
    topics = "00000001 0001 74"
    owned = "00000001 0001 74 00000001 00000000"
    subscriptions = [
        f"0000 {topics} ffffffff",
        f"0001 {topics} 00000002 abcd {owned}",
        f"0003 {topics} ffffffff {owned} 00000005 ffff",
        f"0003 {topics} ffffffff 00000000 00000005 0001 72 beef",  # bytes behind
        f"0007 {topics} ffffffff 00000000 00000005 0001 72",  # too new, nothing inside
        f"0007 {topics} ffffffff {owned} 00000005 0001 72",  # too new, with a struct inside
        f"ffff {topics} ffffffff",  # negative: read as 0
        f"0003 {topics} 00000009 {owned}",  # user data longer than there are bytes
        "0003 7fffffff",
        "00",
        "",
    ]
    assignments = ["", f"0000 {owned} 00000000", f"0009 {owned} ffffffff", "0009 00000000 ffffffff"]
    pairs: list[Pair] = []
    for version in range(5):
        for protocol_type in ("consumer", "connect", "consumer\0"):
            members = [
                {
                    "subscription": unhex(subscription),
                    "assignment": unhex(assignments[at % len(assignments)]),
                }
                for at, subscription in enumerate(subscriptions)
            ]
            value = group.GROUP_METADATA_VALUE.new(
                version, protocol_type=protocol_type, members=members
            )
            stored = struct.pack(">h", version) + encode_message(value)
            pairs.append((unhex("0002 0001 67"), stored))
    assert_same(oracle, tmp_path, "group", pairs)
    assert '"subscription":{"topics":["t"],"userData":"q80=","ownedPartitions"' in "".join(
        ours(offsets_decoder, pairs)
    )


def test_texts_of_every_kind(oracle: Oracle, tmp_path: Path) -> None:
    texts = ["".join(map(chr, range(0x20))), '"\\/\x7f\x80é€\u2028\U0001f600', "a,b|c"]
    raws = [text.encode() for text in texts]
    raws += [b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xbfA", b"\xe2\x82", b"\xf0\x9f\x98A", b"\xc0\xaf"]
    raws += [
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80",
        b"A\xff\xfeB",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80",
    ]
    draw = random.Random(3)
    pieces = [b"\xed", b"\xa0", b"\x80", b"\xbf", b"\xf0", b"\xf4", b"\x90", b"\xe0", b"\xc3", b"a"]
    raws += [b"".join(draw.choices(pieces, k=6)) for _ in range(800)]
    pairs: list[Pair] = []
    for raw in raws:
        config = metadata.CONFIG_RECORD.new(value=raw.decode("utf-8", "surrogateescape"))
        pairs.append((None, unhex("01 04 00") + encode_message(config)))
    assert_same(oracle, tmp_path, "metadata", pairs)


def test_doubles_of_quotas(oracle: Oracle, tmp_path: Path) -> None:
    values = [0.0, -0.0, 1.0, 0.1, 1e7, 1e-3, 9.9e-4, 12345678.9, 1024.0, 5e-324, 1e300, -7.25]
    values += [float("nan"), float("inf"), float("-inf"), 2.0**50, 1 / 3]
    pairs: list[Pair] = [
        (None, unhex("01 0e 00") + encode_message(metadata.CLIENT_QUOTA_RECORD.new(value=value)))
        for value in values
    ]
    assert_same(oracle, tmp_path, "metadata", pairs)


def test_frames_and_versions_of_metadata_records(oracle: Oracle, tmp_path: Path) -> None:
    frames = ["", "00", "07 02 00", "8080808010", "01", "01 ffff7f 00", "01 02", "01 02 ffff7f"]
    frames += ["01 8280fcff0f 00 0263" + "00" * 17, "01 06 00 00", "01 1d 00 00000001 00"]
    frames += ["01 02 05 0263" + "00" * 17, "01 02 ffffffff0f 0263" + "00" * 17]
    frames += ["01 0e 03 01 0161 0000000000000000 00 00", "01 0e 03 02 0261 00 00 0261" + "00" * 10]
    frames += ["01 11 09 00000001 0000000000000002 01 03 01 01", "01 18 00 00 00"]
    pairs: list[Pair] = [(None, unhex(frame)) for frame in frames]
    assert_same(oracle, tmp_path, "metadata", pairs)


def test_remote_log_metadata(oracle: Oracle, tmp_path: Path) -> None:
    segment = remote.REMOTE_LOG_SEGMENT_METADATA_RECORD.new(
        remote_log_segment_id={"topic_id_partition": {"name": "tö\n", "partition": 3}},
        start_offset=100,
        end_offset=199,
        segment_leader_epochs=[
            {"leader_epoch": 9, "offset": 150},
            {"leader_epoch": 2, "offset": 100},
            {"leader_epoch": 9, "offset": 160},
        ],
    )
    update = remote.REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD.new(custom_metadata=b"")
    delete = remote.REMOTE_PARTITION_DELETE_METADATA_RECORD.new()
    snapshot = remote.REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD.new(
        segment_leader_epochs=[{"leader_epoch": 0, "offset": 0}], start_offset=-5
    )
    reported = [
        (0, segment),
        (0, segment.replace(custom_metadata=b"abc", txn_index_empty=True)),
        (0, segment.replace(start_offset=-1)),
        (0, segment.replace(end_offset=99)),
        (0, segment.replace(segment_leader_epochs=())),
        (3, snapshot),
        (3, snapshot.replace(segment_leader_epochs=(), remote_log_segment_state=9)),
        (3, snapshot.replace(segment_leader_epochs=())),
    ]
    reported += [(0, segment.replace(remote_log_segment_state=state)) for state in range(-1, 5)]
    reported += [(1, update.replace(remote_log_segment_state=state)) for state in range(-1, 5)]
    reported += [(2, delete.replace(remote_partition_delete_state=state)) for state in range(-1, 4)]
    pairs: list[Pair] = [(None, None), (None, b"\1\7\0"), (None, b"\1\0\1\2t"), (None, b"")]
    for api_key, message in reported:
        pairs.append((None, bytes([1, api_key, 0]) + encode_message(message)))
        pairs.append((None, bytes([1, api_key, 4]) + encode_message(message)))
    assert_same(oracle, tmp_path, "remote", pairs)


def test_control_records_beside_the_original(oracle: Oracle, tmp_path: Path) -> None:
    examples = json.loads(VECTORS.read_text("utf-8"))
    types = {
        "LeaderChangeMessage": 2,
        "SnapshotHeaderRecord": 3,
        "SnapshotFooterRecord": 4,
        "KRaftVersionRecord": 5,
        "VotersRecord": 6,
    }
    pairs: list[Pair] = [
        (unhex("0000 0000"), unhex("0000 7fffffff")),
        (unhex("0005 0001 ab"), unhex("0003 80000000 00")),
        (unhex("0000 0007"), b""),
        (unhex("0000 ffff"), b"x"),
    ]
    for each in examples:
        if each["name"] in types and each["version"] == 0:
            value = b"\0\0" + unhex(each["bare"])[2:]  # the version inside is the layout's
            pairs.append((bytes([0, 0, 0, types[each["name"]]]), value))
    path = tmp_path / "00000000000000000000.log"
    records = [record(0, key, value) for key, value in pairs]
    path.write_bytes(
        oracle.build_batch({"records": records, "is_control": True, "unchecked": True})
    )
    lines = oracle.dump("--deep-iteration", "--files", path).lines[3:]
    assert len(lines) == len(pairs) == 9
    for line, (key, value) in zip(lines, pairs, strict=True):
        assert line.endswith(f"headerKeys: [] {control_record_text(key, value)}")
