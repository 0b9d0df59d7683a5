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
from safetensors.torch import load_file, save_file

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
    checkpoints.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, torch.Tensor] = {}
    body = {"step": step, "identity": identity, "tree": _split(tree, "", tensors)}
    try:
        temporary.mkdir()
        save_file(tensors, temporary / "state.safetensors")
        body["tensors_sha256"] = _sha256((temporary / "state.safetensors").read_bytes())
        text = json.dumps(body)
        head = {"format": FORMAT, "body_sha256": _sha256(text.encode())}
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
    try:
        head_line, body_line, *_ = manifest.read_text().split("\n")
        head = json.loads(head_line)
        if head.get("format") != FORMAT:
            raise CheckpointError(f"{manifest}: not a checkpoint of this program (wanted '{FORMAT}')")
        if _sha256(body_line.encode()) != head.get("body_sha256"):
            raise CheckpointError(f"{manifest}: damaged (its checksum does not match)")
        body = json.loads(body_line)
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{manifest}: unreadable ({error})") from error
    if body["identity"] != identity:
        raise CheckpointError(f"{manifest}: belongs to another run (other settings or another seed)")
    try:
        data = weights.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{weights}: unreadable ({error})") from error
    if _sha256(data) != body["tensors_sha256"]:
        raise CheckpointError(f"{weights}: damaged (its checksum does not match)")
    return _join(body["tree"], load_file(weights))


def newest(checkpoints: Path, identity: str, warn: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest intact checkpoint's tree, or None where there is no checkpoint at all.

    Damaged ones are reported through `warn` and passed over; raises CheckpointError when all are damaged.
    """
    folders = sorted((f for f in checkpoints.glob("*") if f.name.isdigit()), reverse=True)
    for folder in folders:
        try:
            return load(folder, identity)
        except CheckpointError as error:
            if folder == folders[-1]:
                raise
            warn(f"{error}; going back to the checkpoint before it")
    return None


def prune(checkpoints: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints, and what interrupted writes left behind."""
    folders = sorted(f for f in checkpoints.glob("*") if f.name.isdigit())
    for folder in [*folders[:-keep], *checkpoints.glob("tmp-*")]:
        shutil.rmtree(folder, ignore_errors=True)


def sync(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
            return tensors[value[TENSOR]]
        if ARRAY in value:
            return tensors[value[ARRAY]].numpy()
        return {key: _join(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    return value
