"""`.kafka_cleanshutdown`: the broker shut down cleanly, and this was its epoch.

    file  = '{"version":0,"brokerEpoch":' epoch '}'     from 3.7 on
          | (nothing)                                   before

For recovery only its existence matters: a broker that finds it trusts the logs, and deletes it
before it loads them. The epoch (-1 if unknown) is sent to the controller at registration; a broker
that cannot read it reports none. So no content is an error here: `content` says what was found.

Mirrors org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler, except that an epoch
must be an integer, where Jackson would also accept "5", 5.9 or true.
"""

import os
from enum import Enum
from typing import NamedTuple

from kafka_format import json_text
from kafka_format.errors import FormatError
from kafka_format.file_bytes import read_file_bytes
from kafka_format.primitives import Buffer

VERSION = 0
MAX_SIZE = 64 * 1024
"""Kafka writes at most 48 bytes."""


class CleanShutdownContent(Enum):
    BROKER_EPOCH = "broker epoch"
    EMPTY = "empty"
    UNREADABLE = "unreadable"


class CleanShutdownFile(NamedTuple):
    content: CleanShutdownContent
    broker_epoch: int | None
    version: int | None
    raw: bytes
    """The bytes themselves: unreadable content is kept for the examiner."""

    @classmethod
    def of(cls, broker_epoch: int, *, version: int = VERSION) -> "CleanShutdownFile":
        raw = f'{{"version":{version},"brokerEpoch":{broker_epoch}}}'.encode()
        return cls(CleanShutdownContent.BROKER_EPOCH, broker_epoch, version, raw)


def decode_clean_shutdown_file(buffer: Buffer) -> CleanShutdownFile:
    raw = bytes(buffer)
    if not raw:
        return CleanShutdownFile(CleanShutdownContent.EMPTY, None, None, raw)
    unreadable = CleanShutdownFile(CleanShutdownContent.UNREADABLE, None, None, raw)
    try:
        # Java replaces bytes that are not UTF-8 with U+FFFD: only fatal in the two fields below.
        fields, _ = json_text.decode_object(raw.decode(errors="replace"))
    except FormatError:
        return unreadable
    version, broker_epoch = fields.get("version", 0), fields.get("brokerEpoch")
    if not json_text.is_integer(version, bits=32) or not json_text.is_integer(
        broker_epoch, bits=64
    ):
        return unreadable
    return CleanShutdownFile(CleanShutdownContent.BROKER_EPOCH, broker_epoch, version, raw)


def encode_clean_shutdown_file(file: CleanShutdownFile) -> bytes:
    return file.raw


def read_clean_shutdown_file(path: str | os.PathLike[str]) -> CleanShutdownFile:
    return decode_clean_shutdown_file(read_file_bytes(path, limit=MAX_SIZE))
