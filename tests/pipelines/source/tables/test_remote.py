"""Tables from a bucket are what they are from a disk."""

import logging
from collections.abc import Iterator

import pytest

from tests import golden
from tests.pipelines.in_process import read_table

PACK = "groups-4.3.1"
TABLES = ("partitions", "files", "time_index", "checkpoints", "share_group_state", "findings")
"""One of each way to read; all go through the same storage."""
WANTED = ("data/*", "data/input*/*", "data/__share_group_state-0/*")


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> Iterator[tuple[str, str]]:
    """A part of a broker's log dir on this disk, and the same in a bucket."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = f"endpoint_override={host}:{port}&scheme=http&allow_bucket_creation=true"
    uri = f"s3://user:secret@tables/x?{settings}"
    bucket, _ = fs.FileSystem.from_uri(uri)
    bucket.create_dir("tables")
    local, source = tmp_path_factory.mktemp("tables"), golden.shared(PACK)
    for path in sorted({path for glob in WANTED for path in source.glob(glob) if path.is_file()}):
        name, data = path.relative_to(source), path.read_bytes()
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(data)
        with bucket.open_output_stream(f"tables/x/{name}") as target:
            target.write(data)
    yield str(local), uri
    server.stop()


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_a_bucket_has_the_rows_of_the_disk(roots, table):
    disk, bucket = roots
    local, remote = read_table(disk, table), read_table(bucket, table)
    for row in (*local, *remote):
        row.pop("modified_ms", None)  # when it was copied there
        for name in ("path", "log_dir"):
            if name in row:
                row[name] = row[name].replace(disk, "s3://tables/x")
    assert sorted(remote, key=repr) == sorted(local, key=repr)
    assert bool(local) == (table != "findings")
