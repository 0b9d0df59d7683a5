"""Checkpoints are loaded bit for bit as they were saved, or refused with the name of the wrong file."""

import hashlib
import json
import math
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


def forge(folder: Path, **entries: Any) -> None:
    """Change entries of a manifest, and its sum with them."""
    body = json.dumps(json.loads((folder / MANIFEST).read_text().splitlines()[1]) | entries)
    head = {"format": checkpoint.FORMAT, "body_sha256": hashlib.sha256(body.encode()).hexdigest()}
    (folder / MANIFEST).write_text(f"{json.dumps(head)}\n{body}\n")


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def test_a_tree_comes_back_bit_for_bit(tmp_path: Path) -> None:
    before = tree()
    assert same(checkpoint.load(checkpoint.save(tmp_path, 7, before, "us"), "us"), before)


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


@pytest.mark.slow
@pytest.mark.parametrize("file", [WEIGHTS, MANIFEST])
@settings(max_examples=25)
@given(data=st.data())
def test_any_flipped_bit_and_any_truncation_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, file: str, data: st.DataObject
) -> None:
    [folder] = saved(tmp_path_factory.mktemp("flip"), 1)
    content = bytearray((folder / file).read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place:]
    (folder / file).write_bytes(content)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint.load(folder, "us")
    assert str(folder / file) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("file", [WEIGHTS, MANIFEST])
def test_missing_file_is_named(tmp_path: Path, file: str) -> None:
    [folder] = saved(tmp_path, 1)
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file}: missing"):
        checkpoint.load(folder, "us")


@pytest.mark.parametrize("text", ["", "[]", "7", '{"format": "other 1"}\n{}\n', '{\n  "epoch": 3\n}'])
def test_state_of_another_program_is_refused(tmp_path: Path, text: str) -> None:
    [folder] = saved(tmp_path, 1)
    (folder / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=r"state\.json: damaged, or not a checkpoint of supple"):
        checkpoint.load(folder, "us")


def test_state_of_another_version_is_refused_with_its_format(tmp_path: Path) -> None:
    [folder] = saved(tmp_path, 1)
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text().replace(checkpoint.FORMAT, "supple checkpoint 2"))
    with pytest.raises(CheckpointError, match=r"written by another version of supple as 'supple checkpoint 2'"):
        checkpoint.load(folder, "us")


def test_a_checkpoint_in_the_folder_of_another_step_is_refused(tmp_path: Path) -> None:
    [folder] = saved(tmp_path, 1)
    folder.rename(other := checkpoint.folder_of(tmp_path, 2))
    with pytest.raises(CheckpointError, match="from step 1"):
        checkpoint.load(other, "us")


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    [folder] = saved(tmp_path, 1, identity="them")
    with pytest.raises(CheckpointError, match=r"state\.json: belongs to another run"):
        checkpoint.load(folder, "us")


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("sums_match", [False, True])
def test_a_pickle_under_another_name_is_never_unpickled(tmp_path: Path, sums_match: bool) -> None:
    [folder] = saved(tmp_path / "checkpoints", 1)
    sprung = tmp_path / "sprung"
    torch.save({"weights": Trap(sprung)}, folder / WEIGHTS)
    if sums_match:
        forge(folder, tensors_sha256=hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest())
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
    loaded = checkpoint.load_newest(tmp_path, "us", pytest.fail)
    assert loaded is not None
    assert loaded["step"] == 20


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
    (tmp_path / "tmp-6000-1").mkdir()
    (tmp_path / "notes").mkdir()
    warnings: list[str] = []
    loaded = checkpoint.load_newest(tmp_path, "us", warnings.append)
    assert loaded is not None
    assert loaded["step"] == 200
    assert [str(tmp_path / "000000005000" / MANIFEST) in warnings[0], str(folders[2] / WEIGHTS) in warnings[1]] == [
        True
    ] * 2
    assert len(warnings) == 2


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
    assert same(checkpoint.load(folder, "us"), again)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, WEIGHTS]
