"""Read the logs of a run and check the type of every field. An invalid line is reported by its number."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import Any

import orjson

from ...engine.storage import files
from ...engine.storage.strict_json import NOT_FINITE
from ...registry import schema

Row = dict[str, Any]
Types = Mapping[type, str]

COUNT: Types = {int: "an integer"}
NUMBER: Types = {int: "a number", float: "a number"}
MEASURED: Types = {**NUMBER, NoneType: "null"}  # null: it is in the line's `not_finite`, if not from an old version
TEXT: Types = {str: "a text"}
OBJECT: Types = {dict: "an object"}
LIST: Types = {list: "a list"}
FLAG: Types = {bool: "true or false"}
REWARD: Types = {**MEASURED, **TEXT}  # of an explosion: "nan", "inf" and "-inf" tell what it was
ANY: Types = {**MEASURED, **TEXT, **OBJECT, **LIST, **FLAG}  # for fields that only one kind has

PLACE = {"step": COUNT, "task": COUNT, "cycle": COUNT, "seed": COUNT, "env": TEXT, "name": TEXT, NOT_FINITE: OBJECT}
TASKS = ("task", "evaluated")  # fields that are an index of a task
EVENT = {
    "event": TEXT, "hook": TEXT, "intervention": TEXT, "learner": TEXT, "contract": OBJECT, "before": OBJECT,
    "after": OBJECT, "change": OBJECT, "shift": OBJECT, "seconds": MEASURED, "return": MEASURED, "reward": REWARD,
    "seeds": LIST, "reason": TEXT, "evaluated": COUNT,
}  # fmt: skip
LISTS = {"before": LIST, "scores": LIST, "losses": LIST, "accuracies": LIST}
OUTCOME = {"updates": COUNT, "online_accuracy": MEASURED, "test_accuracy": MEASURED, **LISTS}
# Log → its required fields, the types of known fields, and the types of all others
FIELDS: dict[str, tuple[tuple[str, ...], Mapping[str, Types], Types]] = {
    "metrics": (("step",), PLACE, MEASURED),
    "episodes": (("step", "return"), PLACE | {"return": NUMBER, "length": COUNT, "exploded": FLAG}, ANY),
    "events": (("event", "step"), PLACE | EVENT, ANY),
    "tasks": (("step", "task"), PLACE | OUTCOME, ANY),
}
NUMBERS_IN = ("after", "change", *LISTS)  # objects and lists that hold only numbers
SIDES = ("before", "after", "change")  # the measurements of an intervention
LARGEST = 2**53  # integers up to this are exact as floats, with which figures and tables are made


def read_log(run: Path, name: str, tasks: int) -> list[Row]:
    """Return the lines of a run's log, or [] if the run has not written it yet.

    `tasks` is the number of the run's tasks. Raises ValueError with the file and line number of an invalid line.
    """
    file = run / f"{name}.jsonl"
    try:
        lines = _lines(file)
    except FileNotFoundError:
        return []
    rows = _parse_all(lines)
    if rows is None or not _is_valid(rows, name, tasks):  # then line by line, to find the first invalid one
        rows = _parse_each(lines, file)
        for number, row in enumerate(rows, 1):
            if problem := _problem(row, name, tasks):
                raise ValueError(f"{file}, line {number}: {problem}")
    return rows


def read_jsonl(path: Path) -> list[Row]:
    """Return the objects in a JSON-lines file. An incomplete last line, from a crash, is dropped.

    Raises:
        ValueError: Another line is invalid; the message names the file and the line number.
        FileNotFoundError: There is no such file.
    """
    return _parse_each(_lines(path), path)


def _lines(path: Path) -> list[bytes]:
    lines = files.contents(path).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _parse_all(lines: Sequence[bytes]) -> list[Row] | None:
    """Return the objects in these lines, or None if a line is not JSON. Ten times as fast as `_parse_each`."""
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError:
        return None


def _parse_each(lines: Sequence[bytes], path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = schema.parse_json(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: broken JSON ({error}); expected one object") from error
        rows.append(row)
    return rows


def _is_valid(rows: Sequence[Row], log: str, tasks: int) -> bool:
    """Return whether no line of a log has a problem.

    Types are checked for only one of all lines that have the same fields with the same types.
    """
    alike: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if type(row) is not dict:
            return False
        alike[*row, *map(type, row.values())].append(row)
    for group in alike.values():
        first = group[0]
        nested = any(type(value) in (dict, list) for value in first.values())
        if any(_problem(row, log, tasks) for row in (group if nested else group[:1])):
            return False
        if nested and any(map(schema.is_too_deep, group)):
            return False
        for name in (name for name, value in first.items() if type(value) is int):
            low, high = min(map(itemgetter(name), group)), max(map(itemgetter(name), group))
            least, most = {"step": (0, LARGEST), **dict.fromkeys(TASKS, (0, tasks - 1))}.get(name, (-LARGEST, LARGEST))
            if low < least or high > most:
                return False
    return True


def _problem(row: Row, log: str, tasks: int) -> str:
    """Return the problem of a line of a log, or ""."""
    always, known, others = FIELDS[log]
    if missing := [name for name in always if name not in row]:
        return f"it has no {missing[0]!r}"
    for name, value in row.items():
        if type(value) not in (types := known.get(name, others)):
            wanted = " or ".join(dict.fromkeys(types.values()))
            return f"{name!r} should be {wanted}, but is {schema.describe_value(value)}"
        if type(value) is int and abs(value) > LARGEST:
            return f"{name!r} is too large: {schema.describe_value(value)}"
        inside = value.values() if type(value) is dict else value if type(value) is list else ()
        if name in SIDES and type(value) is dict and "seeds" in row:  # of a stack: one number for each of these seeds
            if bad := [item for item in inside if type(item) is list and len(item) != len(row["seeds"])]:
                return f"{name!r} should hold lists of {len(row['seeds'])} numbers, but holds {bad[0]}"
            inside = [number for item in inside for number in (item if type(item) is list else [item])]
        if name in NUMBERS_IN and (bad := [item for item in inside if type(item) not in MEASURED]):
            return f"{name!r} should hold numbers, but holds {schema.describe_value(bad[0])}"
        if name == "seeds" and (bad := [item for item in value if type(item) is not int]):
            return f"'seeds' should hold integers, but holds {schema.describe_value(bad[0])}"
    if wrong := [row[name] for name in TASKS if name in row and not 0 <= row[name] < tasks]:
        return f"it belongs to task {wrong[0]}, but config.json lists {tasks} tasks"
    return f"'step' is {row['step']}" if row["step"] < 0 else ""
