"""Exact checkpoints without pickle: a tree of plain values and tensors as JSON + safetensors.

A checkpoint is one folder, `checkpoints/<step>/`, with `state.safetensors` (every tensor) and `state.json`
(everything else, the tree's shape, and SHA-256 sums of both parts). It is written under a temporary name,
flushed to the disk and renamed, so a folder with a step for a name is complete, or was damaged later, which the
sums tell.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from .errors import CheckpointError

FORMAT = "supple checkpoint 1"
TENSOR, ARRAY = "__tensor__", "__array__"


def folder_of(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of a step lies; names sort by step."""
    return checkpoints / f"{step:012d}"


def save(checkpoints: Path, step: int, tree: dict[str, Any], identity: str) -> Path:
    """Write a checkpoint atomically; returns its folder.

    tree: nested dicts and lists of tensors, numpy arrays, numbers, strings, booleans and None.
    identity: what `load` will compare, so that another run's checkpoint is refused.
    Raises OSError (a full disk, say) leaving nothing behind.
    """
    target, temporary = folder_of(checkpoints, step), checkpoints / f"tmp-{step}-{os.getpid()}"
    tensors: dict[str, torch.Tensor] = {}
    body = {"step": step, "identity": identity, "tree": _split(tree, "", tensors)}
    data = to_bytes(tensors)
    body["tensors_sha256"] = _sha256(data)
    text = json.dumps(body)
    head = {"format": FORMAT, "body_sha256": _sha256(text.encode())}
    checkpoints.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        (temporary / "state.safetensors").write_bytes(data)
        (temporary / "state.json").write_text(json.dumps(head) + "\n" + text + "\n")
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        sync(checkpoints)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target


def load(folder: Path, identity: str) -> dict[str, Any]:
    """Read a checkpoint back. Raises CheckpointError naming the file that is missing, damaged or foreign."""
    manifest, weights = folder / "state.json", folder / "state.safetensors"
    head_line, _, body_line = _read(manifest).partition(b"\n")
    if _object(head_line).get("format") != FORMAT:
        raise CheckpointError(f"{manifest}: not a checkpoint of this program (wanted '{FORMAT}')")
    if _sha256(body_line.rstrip(b"\n")) != _object(head_line).get("body_sha256"):
        raise CheckpointError(f"{manifest}: damaged (its checksum does not match)")
    body = _object(body_line)
    if body.get("identity") != identity:
        raise CheckpointError(f"{manifest}: belongs to another run (other settings or another seed)")
    data = _read(weights)
    if _sha256(data) != body.get("tensors_sha256"):
        raise CheckpointError(f"{weights}: damaged (its checksum does not match)")
    try:
        return _join(body["tree"], from_bytes(data))
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"{weights}: not what {manifest.name} describes ({error})") from error


def newest(checkpoints: Path, identity: str, warn: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest intact checkpoint's tree, or None where there is no checkpoint at all.

    Damaged ones are reported through `warn` and passed over; raises CheckpointError when all are damaged.
    """
    problems: list[str] = []
    for folder in sorted((f for f in checkpoints.glob("*") if f.name.isdigit()), reverse=True):
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


def prune(checkpoints: Path, keep: int, step: int) -> None:
    """Of the checkpoints up to `step`, remove all but the newest `keep`, and what interrupted writes left."""
    folders = sorted(f for f in checkpoints.glob("*") if f.name.isdigit() and int(f.name) <= step)
    for folder in [*folders[:-keep], *checkpoints.glob("tmp-*")]:
        shutil.rmtree(folder, ignore_errors=True)


def sync(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{file}: missing") from None
    except OSError as error:
        raise CheckpointError(f"{file}: unreadable ({error.strerror})") from error


def _object(line: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for a line that is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _split(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The JSON side of a tree; tensors and arrays move to `tensors` and leave a marker behind."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {TENSOR: path}
    if isinstance(value, np.ndarray):
        tensors[path] = torch.from_numpy(np.array(value, order="C"))
        return {ARRAY: path}
    if isinstance(value, dict):
        if bad := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"checkpoint keys must be strings, got {bad[0]!r} in '{path}'")
        return {key: _split(item, f"{path}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_split(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__} (at '{path}')")


def _join(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]].clone()  # aligned memory of its own, which results may depend on
        if ARRAY in value:
            return tensors[value[ARRAY]].numpy().copy()
        return {key: _join(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    return value
