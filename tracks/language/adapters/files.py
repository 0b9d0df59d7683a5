"""The adapters of a model as files: adapters.safetensors and adapters.json, without pickle.

The JSON has the kind and its parameters, the layers with their shapes and the number of atoms that each task added, a
fingerprint of the layers' weights, and the SHA-256 sum of the other file. Each appears complete, one after the other.
If the machine stops between the two, the sum does not match.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from supple.engine.storage import files
from supple.registry import did_you_mean, one_line
from supple.registry.errors import CheckpointError, UsageError

from .base import Adapter, adapters_by_kind
from .wrap import adapters, insert_adapters, maker

FORMAT = "supple adapters 1"
TENSORS, MANIFEST = "adapters.safetensors", "adapters.json"
SAMPLED = 4096  # values of a weight that its fingerprint looks at


def save_adapters(model: nn.Module, folder: Path | str) -> Path:
    """Write the adapters of a model, without the model, into a folder, and return the folder. It may exist.

    Raises:
        ValueError: The model has no adapters, or different ones in different layers.
        OSError: The folder cannot be written.
    """
    by_layer = adapters(model)
    if not by_layer:
        raise ValueError(f"{type(model).__name__} has no adapters to save: wrap(model, targets, …) first")
    kinds = {cls: kind for kind, cls in adapters_by_kind.entries.items()}
    described = {json.dumps([kinds[type(adapter)], adapter.params]) for adapter in by_layer.values()}
    if len(described) > 1:
        raise ValueError(f"adapters of different kinds cannot be saved together: {', '.join(sorted(described))}")
    kind, params = json.loads(described.pop())
    tensors = {
        f"{name}.{entry}": value.detach().cpu().contiguous()
        for name, adapter in by_layer.items()
        for entry, value in adapter.tensors().items()
    }
    data = safetensors.torch.save(tensors)
    body = {
        "format": FORMAT,
        "kind": kind,
        "params": params,
        "tasks": max(len(adapter.sizes) for adapter in by_layer.values()),
        "layers": {
            name: {"inputs": adapter.in_features, "outputs": adapter.out_features, "atoms": list(adapter.sizes)}
            for name, adapter in by_layer.items()
        },
        "base_sha256": fingerprint({name: adapter.linear for name, adapter in by_layer.items()}),
        "tensors_sha256": files.sha256(data),
    }
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    files.replace(target / TENSORS, data)
    files.replace(target / MANIFEST, f"{json.dumps(body, indent=1)}\n".encode())
    files.sync(target)
    return target


def load_adapters(model: nn.Module, folder: Path | str, check_base: bool = True) -> list[str]:
    """Put saved adapters around the layers of a plain model, freeze all other parameters, and return the layers' names.

    The outputs are bit for bit those of the model from which they were saved.

    check_base: Raise an error if the model's weights are not those with which the adapters were trained. Use False for
    the same model in another dtype.

    Raises:
        CheckpointError: A file is missing or damaged.
        UsageError: The adapters do not fit the model. The model is then unchanged.
    """
    target = Path(folder)
    body, data = _read_manifest(target / MANIFEST), files.read(target / TENSORS)
    if files.sha256(data) != body["tensors_sha256"]:
        raise CheckpointError(f"{target / TENSORS}: damaged (its checksum does not match)")
    if adapters(model):
        raise UsageError(f"{type(model).__name__} has adapters already: unwrap(model) first")
    modules = dict(model.named_modules())
    linears = {name: linear for name in body["layers"] if isinstance(linear := modules.get(name), nn.Linear)}
    if missing := [name for name in body["layers"] if name not in linears]:
        hint = f"{type(model).__name__} has no Linear '{missing[0]}'{did_you_mean(missing[0], modules)}"
        raise UsageError(f"{target}: adapters for another architecture: {hint}")
    if check_base and fingerprint(linears) != body["base_sha256"]:
        raise UsageError(f"{target}: these adapters were trained on other weights than this {type(model).__name__} has")
    try:
        tensors, make = safetensors.torch.load(data), maker(body["kind"], **body["params"])
        return insert_adapters(model, linears, lambda name: _rebuild(make(linears[name]), name, tensors))
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{target / TENSORS}: not what {MANIFEST} describes ({one_line(error)})") from error


def fingerprint(linears: dict[str, nn.Linear]) -> str:
    """Return the SHA-256 sum of names, shapes, dtypes, and up to 8191 evenly spaced values of every weight and bias.

    It distinguishes architectures, checkpoints and dtypes without reading a large model completely."""
    digest = hashlib.sha256()
    for name, linear in sorted(linears.items()):
        for entry, value in sorted(linear.state_dict().items()):
            flat = value.detach().flatten()
            sample = flat[:: max(1, flat.numel() // SAMPLED)].cpu().contiguous()
            digest.update(f"{name}.{entry} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(sample.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _read_manifest(file: Path) -> dict[str, Any]:
    try:
        body = json.loads(files.read(file))
    except ValueError as error:
        raise CheckpointError(f"{file}: damaged (not JSON)") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError(f"{file}: not adapters of this program (wanted '{FORMAT}')")
    return body


def _rebuild(adapter: Adapter, name: str, tensors: dict[str, Tensor]) -> Adapter:
    # aligned memory of its own, which results may depend on
    state = {key: tensors[f"{name}.{key}"].clone() for key in adapter.tensors()}
    adapter.load_state_dict(state | adapter.linear.state_dict(prefix="linear."))
    return adapter
