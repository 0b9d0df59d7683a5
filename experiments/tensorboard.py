"""Scalars in TensorBoard's event format, as lines of a log.

PyTorch's SummaryWriter writes from a thread of its own, under a new name at every start. Here the records are
made where they are logged: a full disk is met in one place, and the file can be cut back with the other logs
when a run is resumed, so that a curve never shows the same steps twice.
"""

import time
from collections.abc import Mapping
from io import BytesIO
from typing import Any

FILE = "tensorboard/events.out.tfevents"  # TensorBoard looks for "tfevents" in a name


def header() -> bytes:
    """Return the record that an event file begins with."""
    return _record(file_version="brain.Event:2")


def scalars(step: int, values: Mapping[str, float]) -> bytes:
    """Return one record with named numbers at a step."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    named = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
    return _record(step=step, summary=Summary(value=named))


def _record(**fields: Any) -> bytes:
    # Only a run that trains needs TensorBoard's modules; they take a moment to import.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = BytesIO()
    RecordWriter(buffer).write(Event(wall_time=time.time(), **fields).SerializeToString())
    return buffer.getvalue()
