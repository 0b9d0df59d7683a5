"""Scalars and texts in TensorBoard's event format, as records of a log.

PyTorch's SummaryWriter writes from its own thread, to a new file at every start. Here, records are written like those
of the other logs: a full disk is noticed in one place, and resuming a run truncates the file with the other logs, so
that a curve never shows the same steps twice.
"""

import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

FILE = "tensorboard/events.out.tfevents"  # TensorBoard looks for "tfevents" in a name
# a record: the length of its data, a checksum of that, the data, a checksum of those
LENGTH, CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # Castagnoli's polynomial
    return crc


CRC_OF_BYTE = [_crc_of_byte(byte) for byte in range(256)]


@dataclass(frozen=True)
class Record:
    """One record: index from 0, step, time in seconds since 1970, and numbers by name or the text of an event."""

    number: int
    step: int
    time: float
    values: Mapping[str, float | str]


def header() -> bytes:
    """Return the first record of an event file."""
    return _serialize(file_version="brain.Event:2")


def scalars(step: int, values: Mapping[str, float]) -> bytes:
    """Return one record with named numbers at a step."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    named = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
    return _serialize(step=step, summary=Summary(value=named))


def text(step: int, name: str, value: str) -> bytes:
    """Return one record with a named text at a step."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[value.encode()])
    return _serialize(step=step, summary=Summary(value=[Summary.Value(tag=name, metadata=kind, tensor=tensor)]))


def read_records(stream: BinaryIO, end: int, number: int = 0) -> Iterator[Record]:
    """Yield the records, except for the header, from the position of a stream to the byte `end`.

    `end` must be the end of a record. The first record yielded gets the index `number`.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    while stream.tell() < end:
        (length,) = LENGTH.unpack(stream.read(LENGTH.size))
        stream.read(CHECKSUM.size)
        event = Event.FromString(stream.read(length))
        stream.read(CHECKSUM.size)
        if event.HasField("summary"):
            values = {
                value.tag: value.tensor.string_val[0].decode()
                if value.HasField("tensor")
                else float(str(np.float32(value.simple_value)))  # the shortest number that reads the same
                for value in event.summary.value
            }
            yield Record(number, event.step, event.wall_time, values)
            number += 1


def _serialize(**fields: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event

    data = Event(wall_time=time.time(), **fields).SerializeToString()
    length = LENGTH.pack(len(data))
    return length + CHECKSUM.pack(masked_crc(length)) + data + CHECKSUM.pack(masked_crc(data))


def masked_crc(data: bytes) -> int:
    """Return the checksum of TensorBoard's records: CRC-32C, rotated by 15 bits to the right, plus a constant.

    It is equal to TensorBoard's own function, whose module takes 0.2 s to import.
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_OF_BYTE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
