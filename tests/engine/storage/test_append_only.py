"""Append-only rows are written once: later checkpoints, and the arms of a fork, share them by hard links."""

import itertools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.engine.storage import checkpoint
from supple.engine.storage.checkpoint import Rows
from supple.registry.errors import CheckpointError
from tests.processes import die_when, ended

ROW_BYTES = 3 * 4 + 4 + 2


@pytest.fixture(autouse=True)
def ten_rows_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.engine.storage.append_only.PART_BYTES", 10 * ROW_BYTES)


def rows(first: int, end: int, salt: int = 0, reads: list[tuple[int, int]] | None = None) -> Rows:
    """Rows whose values follow from their numbers; what is read is noted in `reads`."""

    def read(start: int, stop: int) -> dict[str, torch.Tensor]:
        assert first <= start < stop <= end, "asked for rows that are not alive"
        if reads is not None:
            reads.append((start, stop))
        number = torch.arange(start, stop) + salt
        frames = (number[:, None, None] * 7 + torch.arange(12).view(3, 4)).to(torch.uint8)
        return {"frames": frames, "reward": number / 3, "action": number.to(torch.int16)}

    return Rows(first, end, read)


def save(folder: Path, step: int, leaf: Rows, since: Path | None = None) -> Path:
    return checkpoint.save(folder, step, {"step": step, "memory": {"envs": [leaf]}, "w": torch.ones(2)}, "us", since)


def leaf_of(folder: Path, identity: str = "us") -> Rows:
    loaded = checkpoint.load(folder, identity)["memory"]["envs"][0]
    assert isinstance(loaded, Rows)
    return loaded


def assert_holds(folder: Path, first: int, end: int, salt: int = 0, identity: str = "us") -> None:
    leaf = leaf_of(folder, identity)
    assert (leaf.first, leaf.end) == (first, end)
    if first < end:
        expected, found = rows(first, end, salt).read(first, end), leaf.read(first, end)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)


def parts(folder: Path) -> dict[str, int]:
    """Part file → inode."""
    return {path.name: path.stat().st_ino for path in folder.glob("rows-*")}


def test_a_second_save_writes_only_the_new_rows_and_drops_parts_without_rows_in_use(tmp_path: Path) -> None:
    old = save(tmp_path, 1, rows(0, 25))
    reads: list[tuple[int, int]] = []
    new = save(tmp_path, 2, rows(3, 38, reads=reads), old)
    assert min(start for start, _ in reads) == 25
    assert parts(new).items() >= parts(old).items()
    written = [new / name for name in parts(new).keys() - parts(old).keys()]
    assert sum(file.stat().st_size for file in written) < 13 * ROW_BYTES + len(written) * 400  # 400: a header
    newer = save(tmp_path, 3, rows(20, 45), new)
    assert len(parts(newer).keys() & parts(old).keys()) == 1
    for folder, lives in ((old, (0, 25)), (new, (3, 38)), (newer, (20, 45))):
        assert_holds(folder, *lives)


def test_a_tree_can_hold_several_and_some_can_be_empty(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path, 1, {"a": rows(0, 12), "list": [rows(5, 5), rows(7, 30, salt=9)]}, "us")
    tree = {"a": rows(0, 12), "list": [rows(5, 5), rows(8, 33, salt=9)]}
    found = checkpoint.load(checkpoint.save(tmp_path, 2, tree, "us", since=folder), "us")
    assert (found["list"][0].first, found["list"][0].end) == (5, 5)
    for leaf, wanted in ((found["a"], tree["a"]), (found["list"][1], tree["list"][1])):
        assert torch.equal(leaf.read(8, 12)["reward"], wanted.read(8, 12)["reward"])  # type: ignore[attr-defined]


@pytest.mark.slow
@settings(max_examples=25)
@given(
    lives=st.lists(st.tuples(st.integers(0, 35), st.integers(0, 30)), min_size=1, max_size=6),
    keep=st.integers(1, 3),
    data=st.data(),
)
def test_any_sequence_of_saves_and_loads_returns_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[int, int]], keep: int, data: st.DataObject
) -> None:
    folder, last, first, end = tmp_path_factory.mktemp("life"), None, 0, 0
    held: dict[Path, tuple[int, int]] = {}
    for step, (born, died) in enumerate(lives):
        end += born
        first = min(first + died, end)
        last = save(folder, step, rows(first, end), last)
        held[last] = (first, end)
        checkpoint.prune(folder, keep, step)
    for path in folder.iterdir():
        first, end = held[path]
        assert_holds(path, first, end)
        if first < end:
            start = data.draw(st.integers(first, end - 1))
            found = leaf_of(path).read(start, end)["reward"]
            assert torch.equal(found, rows(first, end).read(start, end)["reward"])


def test_writing_to_loaded_rows_does_not_change_the_checkpoint(tmp_path: Path) -> None:
    folder = save(tmp_path, 1, rows(0, 25))
    leaf_of(folder).read(0, 5)["frames"].zero_()
    assert_holds(folder, 0, 25)


def test_a_wrong_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rows 0 … 6 returned 'x' of shape \(3, 2\).* 6"):
        save(tmp_path, 1, Rows(0, 6, lambda start, stop: {"x": torch.zeros(3, 2)}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lives", [(2, 30), (5, 19)])  # before the oldest part; ending before the newest part ends
def test_all_rows_are_written_if_the_older_parts_do_not_fit(tmp_path: Path, lives: tuple[int, int]) -> None:
    old = save(tmp_path, 1, rows(5, 20, salt=1))
    new = save(tmp_path, 2, rows(*lives), old)
    assert not set(parts(new).values()) & set(parts(old).values())
    assert_holds(new, *lives)


def other_run(old: Path) -> None:
    checkpoint.save(old.parent, 1, {"memory": {"envs": [rows(0, 30, salt=1)]}}, "them")


@pytest.mark.parametrize(
    "harm",
    [
        lambda old: (old / "rows-1-0-10.safetensors").unlink(),
        lambda old: os.truncate(old / "rows-1-0-10.safetensors", 9),
        lambda old: (old / checkpoint.MANIFEST).write_text("{}"),
        shutil.rmtree,
        other_run,
        lambda old: save(old.parent, 2, rows(0, 30, salt=1), old),  # newer: the run went back to the one before
    ],
)
def test_no_part_of_a_checkpoint_of_another_run_or_that_is_damaged_or_missing_is_linked(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    old = save(tmp_path, 1, rows(0, 25))
    harm(old)
    assert_holds(save(tmp_path, 3, rows(0, 35), old), 0, 35)


def test_parts_are_copied_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    old = save(tmp_path, 1, rows(0, 25))
    monkeypatch.setattr(os, "link", refuse)
    new = save(tmp_path, 2, rows(0, 38), old)
    assert parts(new).keys() > parts(old).keys()
    assert not set(parts(new).values()) & set(parts(old).values())
    assert_holds(new, 0, 38)
    arm = checkpoint.adopt(new, "us", tmp_path / "arm", "arm")
    shutil.rmtree(new)
    assert_holds(arm, 0, 38, identity="arm")


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_any_flipped_bit_any_truncation_and_any_missing_file_is_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = save(tmp_path_factory.mktemp("flip"), 1, rows(0, 33))
    file = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    match data.draw(st.sampled_from(("flip", "cut", "unlink"))):
        case "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
            file.write_bytes(content)
        case "cut":
            file.write_bytes(content[:place])
        case "unlink":
            file.unlink()
    with pytest.raises(CheckpointError) as refusal:
        checkpoint.load(folder, "us")
    assert str(refusal.value).startswith(f"{file}: ")
    assert "\n" not in str(refusal.value)


def killed(operation: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed at an operation on files. Return False if it was done before that."""
    operations = itertools.count()
    if not (child := os.fork()):
        try:
            die_when(lambda: next(operations) == operation, str(folder))
            work()
            os._exit(0)
        finally:
            os._exit(1)
    code = ended(child)
    assert code in (0, -signal.SIGKILL), f"operation {operation}: {code}"
    return code != 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
@pytest.mark.parametrize(
    ("act", "identity", "lives"),
    [
        (lambda old, folder: save(folder, 2, rows(12, 38), old), "us", (12, 38)),
        (lambda old, folder: checkpoint.adopt(old, "us", folder, "arm"), "arm", (0, 25)),
    ],
)
def test_a_save_or_a_fork_killed_at_any_file_operation_is_complete_or_absent(
    tmp_path: Path, act: Callable[[Path, Path], Path], identity: str, lives: tuple[int, int]
) -> None:
    old, folder, operation = save(tmp_path / "run", 1, rows(0, 25)), tmp_path / "new", 0
    while killed(operation, tmp_path, lambda: act(old, folder)):
        assert_holds(old, 0, 25)
        for new in checkpoint.folders_of(folder):
            assert_holds(new, *lives, identity=identity)
            shutil.rmtree(new)
        checkpoint.prune(folder, keep=1, step=2)
        assert not [*folder.glob("*")]
        operation += 1
    assert operation > 10, "the operations were not seen"


def test_a_fork_shares_files_and_neither_run_changes_the_other(tmp_path: Path) -> None:
    trunk = save(tmp_path / "trunk", 5, rows(0, 25))
    one, two = (checkpoint.adopt(trunk, "us", tmp_path / name, name, step=-1) for name in ("one", "two"))
    assert parts(one) == parts(two) == parts(trunk)
    assert (one / checkpoint.WEIGHTS).samefile(trunk / checkpoint.WEIGHTS)
    assert checkpoint.load(one, "one")["step"] == -1
    assert checkpoint.load(trunk, "us")["step"] == 5
    lives = {"one": (one, (10, 38)), "two": (two, (0, 31))}
    for name, (since, of) in lives.items():
        new = checkpoint.save(tmp_path / name, 6, {"memory": {"envs": [rows(*of)]}}, name, since)
        assert set(parts(new).values()) & set(parts(trunk).values())
        checkpoint.prune(tmp_path / name, keep=1, step=6)
        assert not since.exists()
    assert_holds(trunk, 0, 25)
    shutil.rmtree(trunk)
    for name, (_, of) in lives.items():
        assert_holds(checkpoint.folder_of(tmp_path / name, 6), *of, identity=name)


def test_a_fork_reads_no_rows_and_names_a_missing_file(tmp_path: Path) -> None:
    trunk = save(tmp_path / "trunk", 5, rows(0, 25))
    part = trunk / "rows-5-0-10.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    arm = checkpoint.adopt(trunk, "us", tmp_path / "arm", "arm")
    with pytest.raises(CheckpointError, match=r"rows-5-0-10\.safetensors: damaged"):
        checkpoint.load(arm, "arm")
    for damage, message in ((lambda: part.write_bytes(b""), "damaged"), (part.unlink, "missing")):
        damage()
        with pytest.raises(CheckpointError, match=rf"rows-5-0-10\.safetensors: {message}"):
            checkpoint.adopt(trunk, "us", tmp_path / "other", "other")
    assert not (tmp_path / "other").exists()
