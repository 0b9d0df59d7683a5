"""Append-only rows are written once: later checkpoints, and the arms of a fork, share them by hard links."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.engine.storage import checkpoint, files
from supple.engine.storage.checkpoint import Rows
from supple.registry.errors import CheckpointError

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


def test_a_second_save_writes_only_the_new_rows(tmp_path: Path) -> None:
    old = save(tmp_path, 1, rows(0, 25))
    reads: list[tuple[int, int]] = []
    new = save(tmp_path, 2, rows(3, 38, reads=reads), old)
    assert min(start for start, _ in reads) == 25
    assert parts(new).items() >= parts(old).items()
    written = [new / name for name in parts(new).keys() - parts(old).keys()]
    assert sum(file.stat().st_size for file in written) < 13 * ROW_BYTES + len(written) * 400  # 400: a header
    assert_holds(old, 0, 25)
    assert_holds(new, 3, 38)


def test_parts_without_rows_in_use_are_dropped(tmp_path: Path) -> None:
    old = save(tmp_path, 1, rows(0, 40))
    new = save(tmp_path, 2, rows(20, 45), old)
    assert len(parts(new).keys() & parts(old).keys()) == 2
    assert_holds(new, 20, 45)
    newer = save(tmp_path, 3, rows(45, 50), new)
    assert not parts(newer).keys() & parts(new).keys()
    assert_holds(newer, 45, 50)


def test_rows_can_be_empty_and_a_tree_can_hold_several(tmp_path: Path) -> None:
    tree = {"a": rows(0, 12), "list": [{"b": rows(5, 5)}, rows(7, 30, salt=9)]}
    folder = checkpoint.save(tmp_path, 1, tree, "us")
    tree["list"][1] = rows(8, 33, salt=9)  # type: ignore[index]
    loaded = checkpoint.load(checkpoint.save(tmp_path, 2, tree, "us", since=folder), "us")
    assert (loaded["list"][0]["b"].first, loaded["list"][0]["b"].end) == (5, 5)
    assert torch.equal(loaded["a"].read(0, 12)["reward"], rows(0, 12).read(0, 12)["reward"])
    assert torch.equal(loaded["list"][1].read(8, 33)["reward"], rows(8, 33, 9).read(8, 33)["reward"])


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
            stop = data.draw(st.integers(start + 1, end))
            found = leaf_of(path).read(start, stop)["reward"]
            assert torch.equal(found, rows(first, end).read(start, stop)["reward"])


def test_writing_to_loaded_rows_does_not_change_the_checkpoint(tmp_path: Path) -> None:
    folder = save(tmp_path, 1, rows(0, 25))
    leaf_of(folder).read(0, 5)["frames"].zero_()
    assert_holds(folder, 0, 25)


def test_a_wrong_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rows 0 … 6 returned 'x' of shape \(3, 2\).* 6"):
        save(tmp_path, 1, Rows(0, 6, lambda start, stop: {"x": torch.zeros(3, 2)}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("first", "end", "why"),
    [(2, 30, "begins before the oldest part"), (5, 19, "ends before the newest part ends")],
)
def test_all_rows_are_written_if_the_older_parts_do_not_fit(tmp_path: Path, first: int, end: int, why: str) -> None:
    old = save(tmp_path, 1, rows(5, 20, salt=1))
    new = save(tmp_path, 2, rows(first, end), old)
    assert not set(parts(new).values()) & set(parts(old).values()), why
    assert_holds(new, first, end)


@pytest.mark.parametrize("break_", [Path.unlink, lambda file: os.truncate(file, 9)])
def test_all_rows_are_written_if_an_older_part_is_missing_or_truncated(
    tmp_path: Path, break_: Callable[[Path], None]
) -> None:
    old = save(tmp_path, 1, rows(0, 30))
    break_(old / sorted(parts(old))[1])
    assert_holds(save(tmp_path, 2, rows(0, 35), old), 0, 35)


def test_no_part_of_a_foreign_damaged_or_missing_checkpoint_is_linked(tmp_path: Path) -> None:
    foreign = checkpoint.save(tmp_path / "other", 1, {"memory": {"envs": [rows(0, 20, salt=1)]}}, "them")
    damaged = save(tmp_path / "damaged", 1, rows(0, 20, salt=1))
    (damaged / checkpoint.MANIFEST).write_text("{}")
    for step, since in enumerate((foreign, damaged, tmp_path / "nowhere", None), start=2):
        assert_holds(save(tmp_path, step, rows(0, 30), since), 0, 30)


def test_no_part_of_a_newer_damaged_checkpoint_is_linked_after_going_back(tmp_path: Path) -> None:
    """The run has continued from the checkpoint before it, so these rows may differ from those of the run."""
    trunk = save(tmp_path, 1, rows(0, 10))
    passed_over = save(tmp_path, 2, rows(0, 25, salt=1), trunk)
    assert_holds(save(tmp_path, 3, rows(0, 40), trunk), 0, 40)
    assert passed_over.exists()


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
@settings(max_examples=15)
@given(data=st.data())
def test_a_damaged_part_is_named(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = save(tmp_path_factory.mktemp("flip"), 1, rows(0, 33))
    file = folder / data.draw(st.sampled_from(sorted(parts(folder))))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
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


def test_damage_to_a_new_part_leaves_the_checkpoint_before_it_usable(tmp_path: Path) -> None:
    old = save(tmp_path, 1, rows(0, 25))
    new = save(tmp_path, 2, rows(0, 38), old)
    (new / "rows-2-0-25.safetensors").write_bytes(b"")
    warnings: list[str] = []
    loaded = checkpoint.load_newest(tmp_path, "us", warnings.append)
    assert loaded is not None
    assert loaded["step"] == 1
    assert "rows-2-0-25.safetensors: damaged" in warnings[0]


def kill() -> None:
    os._exit(9)


def fill_the_disk() -> None:
    raise OSError(28, "No space left on device")


class Stop:
    """Ends this process at one of the operations that change a folder."""

    def __init__(self, operation: int, folder: Path, how: Callable[[], None]) -> None:
        self.left, self.folder, self.how = operation, str(folder), how
        self.sync = files.sync
        sys.addaudithook(self.watch)
        files.sync = self.watched_sync  # the one operation that has no audit event

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        changes = event in ("open", "os.mkdir", "os.link", "os.rename", "os.rmdir", "os.remove", "fsync") and not reads
        if changes and any(str(argument).startswith(self.folder) for argument in arguments):
            self.left -= 1
            if self.left == -1:
                self.how()

    def watched_sync(self, path: Path) -> None:
        self.watch("fsync", (path,))
        self.sync(path)


def stopped(operation: int, folder: Path, how: Callable[[], None], work: Callable[[], object]) -> bool:
    """Do the work in a process that ends at an operation. Return False if the work was done before that."""
    child = os.fork()
    if child == 0:
        try:
            stop = Stop(operation, folder, how)
            work()
            os._exit(0 if stop.left >= 0 else 9)  # 9: a copy was made instead of the link that failed
        except OSError:
            os._exit(1 if [*folder.glob("*/tmp-*")] else 9)
        except BaseException:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"operation {operation}: {code}"
    return code == 9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
@pytest.mark.parametrize("how", [kill, fill_the_disk])
@pytest.mark.parametrize(
    ("act", "identity", "lives"),
    [
        (lambda old, folder: save(folder, 2, rows(12, 38), old), "us", (12, 38)),
        (lambda old, folder: checkpoint.adopt(old, "us", folder, "arm"), "arm", (0, 25)),
    ],
)
def test_a_save_or_a_fork_killed_at_any_file_operation_is_complete_or_absent(
    tmp_path: Path, act: Callable[[Path, Path], Path], identity: str, lives: tuple[int, int], how: Callable[[], None]
) -> None:
    old, folder, operation = save(tmp_path / "run", 1, rows(0, 25)), tmp_path / "new", 0
    while stopped(operation, tmp_path, how, lambda: act(old, folder)):
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

    leaves = {"one": rows(10, 38, salt=0), "two": rows(0, 31, salt=0)}
    for name, since in (("one", one), ("two", two)):
        tree = {"memory": {"envs": [leaves[name]]}}
        new = checkpoint.save(tmp_path / name, 6, tree, name, since)
        assert set(parts(new).values()) & set(parts(trunk).values())
        checkpoint.prune(tmp_path / name, keep=1, step=6)
        assert not since.exists()
        assert_holds(new, leaves[name].first, leaves[name].end, identity=name)
    assert_holds(trunk, 0, 25)
    shutil.rmtree(trunk)
    for name in leaves:
        leaf = leaves[name]
        assert_holds(checkpoint.folder_of(tmp_path / name, 6), leaf.first, leaf.end, identity=name)


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
