"""Exact checkpoints without pickle: a tree of plain values and tensors as JSON and safetensors.

A checkpoint is a folder `checkpoints/<step>/` with `state.safetensors` (all tensors), `rows-….safetensors` (parts of
append-only data, see rows.py) and `state.json` (everything else, the structure of the tree, and SHA-256 sums of all
files). It is written under a temporary name, flushed to the disk and renamed. A folder named by a step is therefore
complete, unless it was damaged later, which the sums reveal.

No folder needs another one: parts that several checkpoints share are hard links, which need no space and remain when
the original folder is removed. However, shared data exists only once, so damage to a part affects all checkpoints that
share it, including those of the arms of a fork.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from supple.registry.errors import CheckpointError

from . import append_only, files
from .append_only import Part, Rows, Tensors

FORMAT = "supple checkpoint 3"
STEP = re.compile(r"[0-9]{12}|[1-9][0-9]{12,}")  # the name of a checkpoint's folder
MANIFEST, WEIGHTS = "state.json", "state.safetensors"
TENSOR, ARRAY, ROWS = "__tensor__", "__array__", "__rows__"


def folder_of(checkpoints: Path, step: int) -> Path:
    """Return the folder for the checkpoint of a step. Names sort by step."""
    return checkpoints / f"{step:012d}"


def folders_of(checkpoints: Path) -> list[Path]:
    """Return the folders of all checkpoints, the oldest first. Other entries are ignored: `2019` is a user's."""
    folders = (folder for folder in checkpoints.glob("*") if STEP.fullmatch(folder.name) and folder.is_dir())
    return sorted(folders, key=lambda folder: int(folder.name))


def leftovers(checkpoints: Path) -> list[Path]:
    """Return the remains of interrupted writes."""
    return files.leftovers(checkpoints, "[0-9]+")


def newest_step(checkpoints: Path) -> int:
    """Return the step of the newest checkpoint, or 0 if there is none."""
    return max((int(folder.name) for folder in folders_of(checkpoints)), default=0)


def save(checkpoints: Path, step: int, tree: dict[str, Any], identity: str, since: Path | None = None) -> Path:
    """Write a checkpoint atomically, and return its folder.

    Args:
        checkpoints: The folder for all checkpoints of the run.
        step: The step of the run.
        tree: Nested dicts and lists of tensors, NumPy arrays, `Rows`, numbers, strings, booleans and None.
        identity: The mark of this run. `load` refuses checkpoints with another mark.
        since: The folder where this run was last saved, or from which it was loaded. The parts of its rows are linked,
            and only newer rows are written. If it is None or the parts do not fit, all rows are written. The newest
            folder is not necessarily the right one: after a damaged checkpoint, a run continues from an earlier one.

    Raises:
        TypeError: The tree holds something else.
        OSError: For example because the disk is full. Nothing is left behind.
    """
    tensors: Tensors = {}
    growing: dict[str, Rows] = {}
    body = {"step": step, "identity": identity, "tree": _split(tree, "", tensors, growing)}
    data = to_bytes(tensors)
    body["tensors_sha256"] = files.sha256(data)
    target = folder_of(checkpoints, step)
    old: dict[str, list[Part]] = {}
    with suppress(CheckpointError):  # of another run, damaged or missing
        if since and since != target:
            old = {path: entry["parts"] for path, entry in _read_manifest(since, identity)["rows"].items()}
    with files.atomic_folder(target) as folder:
        (folder / WEIGHTS).write_bytes(data)
        body["rows"] = {}
        for i, (path, leaf) in enumerate(growing.items()):
            parts = append_only.link_parts(since, old[path], folder, leaf) if since and path in old else []
            parts += append_only.write(folder, f"rows-{step}-{i}", leaf, parts[-1].stop if parts else leaf.first)
            body["rows"][path] = {"first": leaf.first, "end": leaf.end, "parts": parts}
        _write_manifest(folder, body)
    return target


def load(folder: Path, identity: str) -> dict[str, Any]:
    """Return the tree of a checkpoint. Its `Rows` stay in the files, and can be read as long as the folder exists.

    Raises:
        CheckpointError: A file is missing, damaged or from another run; the message names it.
    """
    body, weights = _read_manifest(folder, identity), folder / WEIGHTS
    data = files.read(weights, body["tensors_sha256"])
    append_only.verify(folder, [part for entry in body["rows"].values() for part in entry["parts"]])
    growing = {
        path: append_only.open_rows(folder, entry["first"], entry["end"], entry["parts"])
        for path, entry in body["rows"].items()
    }
    try:
        return _join(body["tree"], from_bytes(data), growing)
    except (SafetensorError, KeyError, TypeError) as error:
        raise CheckpointError(f"{weights}: does not agree with {MANIFEST} ({error})") from error


def adopt(source: Path, identity: str, checkpoints: Path, new_identity: str, **changes: Any) -> Path:
    """Make a checkpoint of another run from the one in `source`, share its files, and return the new folder.

    Only a new state.json is written. The sums of the parts of rows are not compared until the new checkpoint is loaded.

    Args:
        source: The folder of the checkpoint.
        identity: Its mark.
        checkpoints: The folder for all checkpoints of the other run.
        new_identity: The mark of the other run.
        changes: Plain values that replace entries of the tree.

    Raises:
        CheckpointError: A file in `source` is missing, damaged or from another run; the message names it.
    """
    body = _read_manifest(source, identity)
    parts = [part for entry in body["rows"].values() for part in entry["parts"]]
    files.read(source / WEIGHTS, body["tensors_sha256"])
    append_only.require(source, parts)
    with files.atomic_folder(folder_of(checkpoints, body["step"])) as folder:
        for file in (WEIGHTS, *(part.file for part in parts)):
            files.link(source / file, folder / file)
        _write_manifest(folder, {**body, "identity": new_identity, "tree": {**body["tree"], **changes}})
    return folder_of(checkpoints, body["step"])


def load_newest(checkpoints: Path, identity: str, warn: Callable[[str], None]) -> dict[str, Any] | None:
    """Return the tree of the newest intact checkpoint, or None if there is no checkpoint at all.

    Damaged checkpoints are skipped with a warning. Raises CheckpointError if all are damaged.
    """
    problems: list[str] = []
    for folder in reversed(folders_of(checkpoints)):
        try:
            tree = load(folder, identity)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            warn(f"{problem}; going back to the checkpoint before it")
        return tree
    if problems:
        raise CheckpointError(f"no intact checkpoint: {'; '.join(problems)}")
    return None


def lengths_of_logs(folder: Path) -> dict[str, int]:
    """Return the lengths of the logs that a checkpoint recorded, or {} if it is damaged. Its tensors are not read."""
    try:
        return _read_body(folder)["tree"]["logs"]
    except CheckpointError:
        return {}


def prune(checkpoints: Path, keep: int, step: int) -> None:
    """Remove all checkpoints up to `step` except the newest `keep`, and the remains of interrupted writes."""
    folders = [folder for folder in folders_of(checkpoints) if int(folder.name) <= step]
    for folder in [*folders[:-keep], *leftovers(checkpoints)]:
        shutil.rmtree(folder, ignore_errors=True)  # the next call tries again


def _write_manifest(folder: Path, body: Mapping[str, Any]) -> None:
    text = json.dumps(body, default=asdict)  # for `Part`s
    head = {"format": FORMAT, "body_sha256": files.sha256(text.encode())}
    (folder / MANIFEST).write_bytes(f"{json.dumps(head)}\n{text}\n".encode())


def _read_manifest(folder: Path, identity: str) -> dict[str, Any]:
    """Return the body of state.json. Raises CheckpointError if it is missing, damaged or from another run.

    Its entries are `step`, `identity`, `tree`, `tensors_sha256`, and `rows`: by leaf, `first`, `end` and `parts`.
    """
    body, file = _read_body(folder), folder / MANIFEST
    if body["identity"] != identity:
        raise CheckpointError(f"{file}: belongs to another run (other settings or another seed)")
    if folder.name != folder_of(folder.parent, body["step"]).name:
        raise CheckpointError(f"{file}: from step {body['step']}, which is not the step in its folder's name")
    return body


def _read_body(folder: Path) -> dict[str, Any]:
    """Return the second line of state.json. Raises CheckpointError if its format or its sum is not right."""
    file = folder / MANIFEST
    head_line, _, body_line = files.read(file).partition(b"\n")
    try:
        head = json.loads(head_line)
        written, expected = str(head["format"]), head["body_sha256"]
    except (ValueError, LookupError, TypeError):
        raise CheckpointError(f"{file}: damaged, or not a checkpoint of supple (expected '{FORMAT}')") from None
    if written != FORMAT:
        raise CheckpointError(
            f"{file}: written by another version of supple as '{written}', but this one reads '{FORMAT}': resume "
            f"the run with the version that wrote it"
        )
    if files.sha256(body_line.rstrip(b"\n")) != expected:
        raise CheckpointError(f"{file}: damaged (its checksum does not match)")
    body: dict[str, Any] = json.loads(body_line)
    for entry in body["rows"].values():
        entry["parts"] = [Part(**part) for part in entry["parts"]]
    return body


def _split(value: Any, path: str, tensors: Tensors, growing: dict[str, Rows]) -> Any:
    """Return a tree as JSON values. Tensors and arrays move to `tensors`, rows to `growing`; markers replace them.

    Raises TypeError for a tree that a checkpoint cannot hold. The message names the first entry that is wrong.
    """
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {TENSOR: path}
    if isinstance(value, np.ndarray):
        tensors[path] = torch.from_numpy(np.array(value, order="C"))
        return {ARRAY: path}
    if isinstance(value, Rows):
        growing[path] = value
        return {ROWS: path}
    if isinstance(value, dict):
        if bad := [key for key in value if not isinstance(key, str) or key in (TENSOR, ARRAY, ROWS)]:
            raise TypeError(f"checkpoint keys must be strings of one's own, got {bad[0]!r} in '{path}'")
        return {key: _split(item, f"{path}/{key}", tensors, growing) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_split(item, f"{path}/{i}", tensors, growing) for i, item in enumerate(value)]
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"a checkpoint cannot hold {type(value).__name__} (at '{path}')")
    return value


def _join(value: Any, tensors: Tensors, growing: dict[str, Rows]) -> Any:
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]].clone()  # in new, aligned memory: results may depend on the alignment
        if ARRAY in value:
            return tensors[value[ARRAY]].numpy().copy()
        if ROWS in value:
            return growing[value[ROWS]]
        return {key: _join(item, tensors, growing) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, tensors, growing) for item in value]
    return value
