"""Numbers in JSON, which has neither NaN nor infinity: they are null. Logs have their texts beside them."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

NOT_FINITE = "not_finite"  # in a line of a log: name, or names and position joined by "/" → "nan", "inf" or "-inf"


def strict_json(value: Any, texts: dict[str, str] | None = None, name: str = "") -> Any:
    """Return a value for strict JSON: arrays and tuples as lists, NaN and infinity as None.

    The texts of these are added to `texts`, under the `name` of the value and its place there.
    """
    if isinstance(value, Mapping):
        return {key: strict_json(item, texts, f"{name}/{key}" if name else key) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [strict_json(item, texts, f"{name}/{place}") for place, item in enumerate(value)]
    if isinstance(value, float) and not isfinite(value):
        if texts is not None:
            texts[name] = str(value)
        return None
    return value


def json_line(fields: Mapping[str, Any]) -> bytes:
    """Return a line of a log. Numbers that are not finite are null, and their texts are in its field `not_finite`."""
    texts: dict[str, str] = {}
    plain = strict_json(fields, texts)
    return json.dumps(plain | ({NOT_FINITE: texts} if texts else {}), allow_nan=False).encode() + b"\n"
