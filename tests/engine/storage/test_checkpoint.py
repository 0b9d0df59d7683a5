"""Checkpoints are loaded bit for bit as they were saved, or refused with the name of the wrong file."""

import json
import math
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supple.engine.storage import checkpoint, files
from supple.engine.storage.restoring import restoring
from supple.registry.errors import CheckpointError

WEIGHTS, MANIFEST = "state.safetensors", "state.json"


def tree(step: int = 0) -> dict[str, Any]:
    return {
        "step": step,
        "nothing": None,
        "yes": True,
        "numbers": [1, 0.1, -math.inf, 1e-320],
        "text": 'λ "quoted"\n',
        "tensors": {"float": torch.randn(3, 4), "transposed": torch.randn(2, 5).T, "state": torch.get_rng_state()},
        "arrays": [np.array(1.5), np.arange(3.0), np.zeros((0, 2), np.float32)],
        "empty": {"list": [], "dict": {}},
    }


def saved(folder: Path, *steps: int, identity: str = "us") -> list[Path]:
    return [checkpoint.save(folder, step, tree(step), identity) for step in steps]


def plain(value: Any) -> Any:
    """Return a tree with the types, shapes and bytes of its tensors and arrays in their place."""
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, torch.Tensor | np.ndarray):
        return type(value), value.dtype, value.shape, np.asarray(value).tobytes()
    return type(value), value


def test_a_tree_comes_back_bit_for_bit(tmp_path: Path) -> None:
    before = tree()
    assert plain(checkpoint.load(checkpoint.save(tmp_path, 7, before, "us"), "us")) == plain(before)


def test_loaded_tensors_have_memory_of_their_own(tmp_path: Path) -> None:
    """It is aligned as that of new tensors, and writable, because training writes into it."""
    loaded = checkpoint.load(saved(tmp_path, 1)[0], "us")
    for tensor in loaded["tensors"].values():
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
        assert tensor.data_ptr() % 64 == 0
    assert all(array.flags.writeable and array.flags.owndata for array in loaded["arrays"])


def test_a_tree_that_cannot_be_saved_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for bad in ({"a": object()}, {"a": {1: 2}}, {"a": [{1, 2}]}):
        with pytest.raises(TypeError, match="a"):
            checkpoint.save(tmp_path / "new", 1, bad, "us")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda folder: (folder / WEIGHTS).unlink(), "state.safetensors: missing"),
        (lambda folder: (folder / MANIFEST).unlink(), "state.json: missing"),
        (lambda folder: (folder / MANIFEST).write_text(""), "state.json: damaged, or not a checkpoint of supple"),
        (lambda folder: (folder / MANIFEST).write_text('{\n  "epoch": 3\n}'), "damaged, or not a checkpoint of supple"),
        (lambda folder: (folder / MANIFEST).write_text('{"format": "other 1", "body_sha256": ""}'), "as 'other 1'"),
        (lambda folder: folder.rename(checkpoint.folder_of(folder.parent, 2)), "from step 1"),
        (lambda folder: checkpoint.save(folder.parent, 1, tree(), "them"), "state.json: belongs to another run"),
    ],
)
def test_what_is_no_checkpoint_of_this_step_and_run_is_refused(
    tmp_path: Path, harm: Callable[[Path], object], words: str
) -> None:
    harm(saved(tmp_path, 1)[0])
    with pytest.raises(CheckpointError, match=words):
        checkpoint.load(*checkpoint.folders_of(tmp_path), "us")


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.folder,)


def test_a_pickle_under_another_name_is_never_unpickled(tmp_path: Path) -> None:
    [folder] = saved(tmp_path / "checkpoints", 1)
    sprung = tmp_path / "sprung"
    torch.save({"weights": Trap(sprung)}, folder / WEIGHTS)
    body = json.loads((folder / MANIFEST).read_text().splitlines()[1])
    body["tensors_sha256"] = files.sha256((folder / WEIGHTS).read_bytes())
    checkpoint._write_manifest(folder, body)  # with a sum that is right
    with pytest.raises(CheckpointError, match=WEIGHTS):
        checkpoint.load(folder, "us")
    (folder / MANIFEST).write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(CheckpointError, match=MANIFEST):
        checkpoint.load(folder, "us")
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists(), "the trap itself is broken"


def test_folders_with_other_names_are_not_checkpoints(tmp_path: Path) -> None:
    saved(tmp_path, 1, 20)
    for name in ("²", "٣", "tmp-9", "000000000030.old", "-1", "2019", "0000000000030"):
        (tmp_path / name).mkdir()
    (tmp_path / "000000000040").write_text("mine")
    assert [folder.name for folder in checkpoint.folders_of(tmp_path)] == ["000000000001", "000000000020"]


def test_any_exception_while_a_state_is_restored_names_the_checkpoints(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match=rf"{tmp_path}: not a state of this run \(KeyError: 'w'\)"),
        restoring(tmp_path),
    ):
        torch.nn.Linear(1, 1).load_state_dict({}["w"])


def test_newest_intact_checkpoint_is_used_and_every_damaged_one_reported(tmp_path: Path) -> None:
    folders = saved(tmp_path, 10, 200, 3000)
    (folders[2] / WEIGHTS).unlink()
    (tmp_path / "000000005000").mkdir()
    warnings: list[str] = []
    loaded = checkpoint.load_newest(tmp_path, "us", warnings.append)
    assert loaded is not None
    assert loaded["step"] == 200
    damaged, lacking = warnings
    assert str(tmp_path / "000000005000" / MANIFEST) in damaged
    assert str(folders[2] / WEIGHTS) in lacking


def test_without_checkpoints_there_is_no_state_and_with_damaged_ones_only_an_error(tmp_path: Path) -> None:
    assert checkpoint.load_newest(tmp_path / "nowhere", "us", pytest.fail) is None
    for folder in saved(tmp_path, 1, 2):
        (folder / WEIGHTS).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"1/state\.safetensors.*damaged") as refusal:
        checkpoint.load_newest(tmp_path, "us", pytest.fail)
    assert "\n" not in str(refusal.value)


def test_prune_keeps_the_newest_up_to_a_step_and_removes_leftovers(tmp_path: Path) -> None:
    saved(tmp_path, 9, 10, 100, 1000)
    (tmp_path / "tmp-100-77").mkdir()
    checkpoint.prune(tmp_path, keep=2, step=100)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["000000000010", "000000000100", "000000001000"]


def test_failing_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                saved(tmp_path, 2)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert [folder.name for folder in tmp_path.iterdir()] == ["000000000001"]


def test_the_leftovers_of_a_killed_save_do_not_prevent_the_next_one(tmp_path: Path) -> None:
    if not (child := os.fork()):
        with files.atomic_folder(tmp_path / f"{1:012}") as half:
            (half / "half").touch()
            os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    [folder] = saved(tmp_path, 1)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, WEIGHTS]
    checkpoint.prune(tmp_path, keep=1, step=1)
    assert list(tmp_path.iterdir()) == [folder]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    [folder] = saved(tmp_path, 1)
    shutil.copy(folder / MANIFEST, folder / "leftover")
    again = tree(1)
    checkpoint.save(tmp_path, 1, again, "us")
    assert plain(checkpoint.load(folder, "us")) == plain(again)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, WEIGHTS]
