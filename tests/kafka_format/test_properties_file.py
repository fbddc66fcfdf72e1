import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import CorruptError, FormatError, UnsupportedError
from kafka_format.properties_file import (
    MetaProperties,
    PropertiesFile,
    Property,
    decode_meta_properties,
    decode_properties,
    encode_meta_properties,
    encode_properties,
    read_meta_properties,
    read_properties,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: golden pack cleaner-4.3.1.
GOLDEN = (
    b"#\n#Mon Nov 16 08:23:22 UTC 2026\nnode.id=1\ndirectory.id=TH20NbfJQZc0WHJDtuXjvQ\n"
    b"version=1\ncluster.id=Z29sZGVuLWRpcmVjdG9yeQ\n"
)
META = MetaProperties(
    version=1,
    cluster_id="Z29sZGVuLWRpcmVjdG9yeQ",
    node_id=1,
    directory_id=uuid.UUID("4c7db435-b7c9-4197-3458-7243b6e5e3bd"),
)

# By java.util.Properties' documentation; asked of a JVM in test_side_files_oracle.
LOADED = [
    (b"", {}),
    (b"a=b", {"a": "b"}),
    (b"a=b\nc=d\r\ne=f\rg=h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
    (b"a:b\nc d\ne\tf\ng\x0ch", {"a": "b", "c": "d", "e": "f", "g": "h"}),
    (b"  \t\x0ca \t=\x0c  b  ", {"a": "b  "}),
    (b"a==b\nc=:d\ne = = f", {"a": "=b", "c": ":d", "e": "= f"}),
    (b"a\nb=\nc=\\", {"a": "", "b": "", "c": ""}),
    (b"=x\n:y", {"": "y"}),
    (b"a=1\na=2", {"a": "2"}),
    (b"#a=1\n  ! b=2\n#c\\\nd=3\n\n\x0c\n", {"d": "3"}),
    (b"a\\ b\\:c\\=d=e", {"a b:c=d": "e"}),
    (b"a=b\\\n   c\\\r\n\td", {"a": "bcd"}),
    (b"a\\\nb=c", {"ab": "c"}),
    (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    (b"a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
    (b"a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    (b"a=b\\\n#c=d", {"a": "b#c=d"}),
    (b"\\\n#a=b\nc=d", {"c": "d"}),
    (b"\\\n\\\n  a=b", {"a": "b"}),
    (b"\\\n\n", {}),
    (b"\\", {"": ""}),
    (b"a=b\n\\\n", {"a": "b", "": ""}),
    (b"\\\r", {"": ""}),
    (b"\\\r\n", {}),
    (b"\\\n  ", {}),
    (b"\\\n\\\n", {"": ""}),
    (b"a=\\t\\n\\r\\f\\b\\q\\\\", {"a": "\t\n\r\fbq\\"}),
    (b"\\u0061\\u003db=\\u00e9\\u20AC", {"a=b": "\u00e9\u20ac"}),
    (b"a=\\ud83d\\ude00", {"a": "\U0001f600"}),
    (b"a=\xe9\xff", {"a": "\u00e9\u00ff"}),
    ("a=é".encode(), {"a": "Ã©"}),  # UTF-8 is read as two letters
    (b"a=\x00\x1a", {"a": "\x00\x1a"}),
]


@pytest.mark.parametrize(("data", "values"), LOADED, ids=range(len(LOADED)))
def test_properties_load_as_in_java_and_come_back(data, values):
    file = decode_properties(data)
    assert file.values() == values
    assert encode_properties(file) == data


def test_a_property_has_its_position():
    file = decode_properties(b"# comment\n\n  a=b\\\n  c\nd=e\n")
    assert list(file.properties()) == [Property(11, "a", "bc"), Property(22, "d", "e")]
    assert [line.raw for line in file.lines] == [b"# comment\n", b"\n", b"  a=b\\\n  c\n", b"d=e\n"]


def test_half_a_surrogate_pair_stays():
    assert decode_properties(rb"a=\ude00\ud83d").values() == {"a": "\ude00\ud83d"}


@pytest.mark.parametrize("data", [rb"a=\u12", rb"a=\u12g4", rb"\u=1", rb"a=x\u"])
def test_a_malformed_escape_is_an_error_as_in_java(data):
    with pytest.raises(CorruptError) as caught:
        decode_properties(b"x=y\n" + data, path="p")
    assert caught.value.location == ("p", 4)


def test_a_file_is_written_as_properties_store_does():
    file = PropertiesFile.of({"a b=": " c d#!:\t\n\r\f\\\x01é"}, date="DATE", comment="C")
    assert encode_properties(file) == (
        "#C\n#DATE\na\\ b\\==\\ c d\\#\\!\\:\\t\\n\\r\\f\\\\\x01é\n".encode()
    )


def test_meta_properties_of_version_1():
    assert decode_meta_properties(GOLDEN) == META
    assert encode_properties(decode_properties(GOLDEN)) == GOLDEN


def test_meta_properties_are_written_in_the_order_of_javas_hash_table():
    assert encode_meta_properties(META, date="Mon Nov 16 08:23:22 UTC 2026") == GOLDEN


def test_meta_properties_are_sorted_from_jdk_18_on():
    data = encode_meta_properties(META, date="D", sort_keys=True)
    assert [line[:7] for line in data.splitlines()[2:]] == [
        b"cluster",
        b"directo",
        b"node.id",
        b"version",
    ]


@pytest.mark.parametrize(
    ("data", "meta"),
    [
        (b"", MetaProperties(0)),
        (b"version=0\nbroker.id=3\n", MetaProperties(0, node_id=3)),
        (b"broker.id=3\ncluster.id=c\n", MetaProperties(0, cluster_id="c", node_id=3)),
        (b"version=0\nnode.id=3\n", MetaProperties(0)),
        (b"version=\\ 1\\t\nnode.id=+1\ncluster.id=", MetaProperties(1, "", 1)),
        (b"version=1\nnode.id=1\ncluster.id=c\nbroker.id=x", MetaProperties(1, "c", 1)),
        (b"version=1\nnode.id=1\ncluster.id=c\nversion=0\n", MetaProperties(0, "c")),
    ],
)
def test_meta_properties_are_read_as_kafka_does(data, meta):
    assert decode_meta_properties(data) == meta


def test_version_0_is_written_with_the_broker_id():
    data = encode_meta_properties(MetaProperties(0, "c", 3), date="D")
    assert data == b"#\n#D\nbroker.id=3\nversion=0\ncluster.id=c\n"
    assert encode_meta_properties(MetaProperties(0), date="D") == b"#\n#D\nversion=0\n"


@pytest.mark.parametrize(
    ("data", "error", "position"),
    [
        (b"#\nversion=2\n", UnsupportedError, 2),
        (b"#\nversion=-1\n", UnsupportedError, 2),
        (b"#\nversion=x\n", CorruptError, 2),
        (b"#\nversion=\n", CorruptError, 2),
        (b"version=1\nnode.id=1\n", CorruptError, 0),
        (b"version=1\ncluster.id=c\n", CorruptError, 0),
        (b"version=1\nnode.id= 1 \ncluster.id=c\n", CorruptError, 10),  # only version is trimmed
        (b"broker.id=x", CorruptError, 0),
        (b"#\ndirectory.id=x\n", CorruptError, 2),
        (b"#\ndirectory.id=\n", CorruptError, 2),
    ],
)
def test_what_makes_kafka_throw_is_located(data, error, position):
    with pytest.raises(FormatError) as caught:
        decode_meta_properties(data, path="meta.properties")
    assert type(caught.value) is error
    assert caught.value.location == ("meta.properties", position)


def test_an_error_names_the_property():
    with pytest.raises(CorruptError) as caught:
        decode_meta_properties(b"version=1\nnode.id=x\ncluster.id=c\n", path="m")
    assert str(caught.value) == "m@10: found node.id='x', expected a 32-bit integer"


latin1 = st.text(st.characters(codec="latin-1"))
ascii_text = st.text(st.characters(codec="ascii"))


@given(st.dictionaries(ascii_text, ascii_text))
def test_what_is_stored_loads_again(values):
    file = PropertiesFile.of(values, date="D")
    assert decode_properties(encode_properties(file)).values() == values


@given(
    st.one_of(
        st.binary(), st.text(alphabet="a=:\\ #!u0061\n\r\t\f").map(lambda text: text.encode())
    )
)
def test_any_bytes_give_a_value_that_comes_back_or_a_format_error(data):
    file = damage.value_or_error(decode_properties, data)
    if isinstance(file, PropertiesFile):
        assert encode_properties(file) == data
        assert b"".join(line.raw for line in file.lines) == data
    damage.value_or_error(decode_meta_properties, data)


int32 = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(
        MetaProperties, st.just(1), cluster_id=ascii_text, node_id=int32, directory_id=st.uuids()
    )
)
def test_any_meta_properties_come_back(meta):
    assert decode_meta_properties(encode_meta_properties(meta, date="D")) == meta


def test_every_cut_and_every_flip_gives_a_value_or_a_format_error():
    for data in [*damage.cuts(GOLDEN), *(flipped for _, flipped in damage.flips(GOLDEN))]:
        damage.value_or_error(decode_meta_properties, data)


def test_files_are_read_and_their_path_is_in_the_error(tmp_path):
    path = tmp_path / "meta.properties"
    path.write_bytes(GOLDEN)
    assert read_meta_properties(path) == META
    assert read_properties(path).values()["node.id"] == "1"
    path.write_bytes(b"version=7")
    with pytest.raises(UnsupportedError) as caught:
        read_meta_properties(path)
    assert str(caught.value) == f"{path}@0: found version 7, expected 0 or 1"


def test_a_property_over_many_lines_is_joined_in_linear_time():
    data = b"cluster.id=" + b"aaaaaaaaaaaa\\\n" * 70_000 + b"z\n"
    start = time.process_time()
    (found,) = decode_properties(data).values().values()
    assert time.process_time() - start < 5
    assert found == "a" * 840_000 + "z"
