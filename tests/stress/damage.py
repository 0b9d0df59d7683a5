"""Damaged run folders, of all nine kinds: what `supple resume` and `supple report` make of them.

    python tests/stress/damage.py --out docs/results/reliability/damage.json

Every attempt damages a copy of a small run: of the whole run, where the damage is to a checkpoint; without its last
checkpoint, where it is to config.json, or to the checkpoint before, so that what was forged trains on. Then
`supple resume` is asked to go on, in this process but through the command's own entry, and where config.json was
damaged `supple report` is asked too. An attempt holds if the run ends with the bytes of the run that nobody touched, or
is refused in one line. Where a tensor was replaced and the checksums were computed anew, it may also be accepted if its
shape fits: then it is what somebody wrote, and a run like any other.
"""

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from asking import Attempt, ask, count
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from small_runs import RUNS, command, logs, weights

from supple.engine.storage import checkpoint, files

SAME, BACK, ACCEPTED = "the same bytes", "went back, the same bytes", "accepted"
JUNK: tuple[Any, ...] = (None, True, -1, 0, 2.5, "", "x", "²", "a/../b", [], {}, [[]], {"a": None}, [1, "x"])


@dataclass(frozen=True)
class Args:
    out: Path | None = None  # a JSON file for the counts
    rounds: int = 2  # how often every damage is done to every kind of run, each time elsewhere in it
    kinds: tuple[str, ...] = tuple(RUNS)  # of runs
    seed: int = 0


# -- damage to a file -------------------------------------------------------------------------------------------------


def truncate(draw: random.Random, file: Path) -> None:
    os.truncate(file, draw.randrange(file.stat().st_size))


def flip_a_bit(draw: random.Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    replace(file, bytes(data))


def fill_with_noise(draw: random.Random, file: Path) -> None:
    replace(file, draw.randbytes(file.stat().st_size))


def remove(draw: random.Random, file: Path) -> None:
    file.unlink()


def make_a_folder(draw: random.Random, file: Path) -> None:
    file.unlink()
    file.mkdir()


TO_FILES = (truncate, flip_a_bit, fill_with_noise, remove, make_a_folder)


def replace(file: Path, data: bytes) -> None:
    """Write a file that shares nothing with what it was linked to."""
    file.unlink()
    file.write_bytes(data)


def edit_value(draw: random.Random, value: Any) -> Any:
    """Return a JSON value with one change somewhere in it: junk, an entry more, an entry less."""
    while json.dumps(found := _edit(draw, value)) == json.dumps(value):
        continue
    return found


def _edit(draw: random.Random, value: Any) -> Any:
    if isinstance(value, (dict, list)) and value and draw.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key, changed = draw.choice(keys), value.copy()
        if draw.random() < 0.15:
            del changed[key]
        else:
            changed[key] = _edit(draw, value[key])
        return changed
    if isinstance(value, dict) and draw.random() < 0.3:
        return {**value, draw.choice(("x", "__tensor__", "__rows__", "../x", "²")): draw.choice(JUNK)}
    return draw.choice(JUNK)


# -- damage to checkpoints and to config.json -------------------------------------------------------------------------


def swap_with_the_one_before(draw: random.Random, folders: list[Path], other: Path) -> None:
    file = draw.choice(sorted(folders[-1].glob("state.*"))).name
    replace(folders[-1] / file, (folders[-2] / file).read_bytes())


def take_that_of_another_run(draw: random.Random, folders: list[Path], other: Path) -> None:
    shutil.rmtree(folders[-1])
    shutil.copytree(checkpoint.folders_of(other / "checkpoints")[-1], folders[-1])


def rename_the_one_before(draw: random.Random, folders: list[Path], other: Path) -> None:
    shutil.rmtree(folders[-1])
    folders[-2].rename(folders[-1])


def leave_strays(draw: random.Random, folders: list[Path], other: Path) -> None:
    for name in ("²", "tmp-1", "x" * 200, "000000000001.old"):
        (folders[-1].parent / name).mkdir()


def edit_a_tensor_and_sums(draw: random.Random, folders: list[Path], other: Path) -> None:
    file = folders[-1] / checkpoint.WEIGHTS
    tensors = from_bytes(file.read_bytes())
    name = draw.choice(sorted(tensors))
    kinds = (torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64, torch.bool)
    tensors[name] = torch.zeros(draw.choice(((), (0,), (3,), (2, 5), tensors[name].shape))).to(draw.choice(kinds))
    replace(file, to_bytes(tensors))
    forge(folders[-1], lambda body: {**body, "tensors_sha256": files.sha256(file.read_bytes())})


def forge(folder: Path, edit: Callable[[Any], Any]) -> None:
    """Edit a manifest and compute its sum anew."""
    file = folder / checkpoint.MANIFEST
    text = json.dumps(edit(json.loads(file.read_text().splitlines()[1])))
    head = {"format": checkpoint.FORMAT, "body_sha256": files.sha256(text.encode())}
    replace(file, f"{json.dumps(head)}\n{text}\n".encode())


TO_CHECKPOINTS = (
    swap_with_the_one_before, take_that_of_another_run, rename_the_one_before, leave_strays,
    *[edit_a_tensor_and_sums] * 4,
)  # fmt: skip


def in_the_newest(damage: Callable[..., None], draw: random.Random, folders: list[Path], other: Path) -> None:
    damage(draw, draw.choice(sorted(folders[-1].iterdir())))


def in_all(damage: Callable[..., None], draw: random.Random, folders: list[Path], other: Path) -> None:
    for folder in folders:
        damage(draw, draw.choice(sorted(folder.iterdir())))


def edit_an_entry(draw: random.Random, file: Path) -> None:
    replace(file, json.dumps(edit_value(draw, json.loads(file.read_text()))).encode())


def take_a_digit(draw: random.Random, file: Path) -> None:
    value = json.loads(file.read_text())
    value["resolved"]["planned"] //= 10
    replace(file, json.dumps(value).encode())


TO_CONFIGS = (*TO_FILES, take_a_digit, *[edit_an_entry] * 4)


# -- attempts ---------------------------------------------------------------------------------------------------------


def describe(damage: Callable[..., None]) -> str:
    """Return a damage in words."""
    if isinstance(damage, partial):
        return f"{describe(damage.args[0])}, {describe(damage.func)}"
    return damage.__name__.replace("_", " ")


def resume(copy: Path, whole: Path, may_differ: bool) -> tuple[str, str]:
    """Return what came of resuming a run, and what was said."""
    outcome, said = ask("resume", str(copy))
    if outcome:
        return outcome, said
    if logs(copy) == logs(whole) and weights(copy) == weights(whole):
        return BACK if "going back" in said else SAME, said
    return ACCEPTED if may_differ else "other bytes", said


def make_attempts(args: Args, kind: str, folder: Path, data: dict[str, str]) -> Iterator[Attempt]:
    """Yield every attempt on runs of one kind."""
    whole, other, draw = folder / kind, folder / f"{kind}-other", random.Random(f"{args.seed} {kind}")
    for place, seed in ((whole, "0"), (other, "1")):
        words = command(kind, data, place)
        words += ["--keep-checkpoints", "3", *(["--seeds", seed] if "--seeds" in words else ["--seed", seed])]
        outcome, said = ask(*words)
        assert not outcome, said
    to_checkpoints: list[Callable[..., None]] = [
        *(partial(where, damage) for damage in TO_FILES for where in (in_the_newest, in_all)),
        *TO_CHECKPOINTS,
    ] * args.rounds
    for damage in to_checkpoints:
        with temporary_copy(whole) as copy:
            damage(draw, checkpoint.folders_of(copy / "checkpoints"), other)
            may_differ, what = damage is edit_a_tensor_and_sums, describe(damage)
            yield "checkpoints", what, what, *resume(copy, whole, may_differ)
    for damage in [edit_a_tensor_and_sums] * 8 * args.rounds:
        with temporary_copy(whole) as copy:
            shutil.rmtree(checkpoint.folders_of(copy / "checkpoints")[-1])
            damage(draw, checkpoint.folders_of(copy / "checkpoints"), other)
            what = describe(damage)
            yield "checkpoints that trained on", what, what, *resume(copy, whole, may_differ=True)
    for damage in TO_CONFIGS * args.rounds:
        with temporary_copy(whole) as copy:
            shutil.rmtree(checkpoint.folders_of(copy / "checkpoints")[-1])
            damage(draw, copy / "config.json")
            (outcome, said), what = ask("report", str(copy)), describe(damage)
            yield "reports of damaged configs", what, what, outcome or ACCEPTED, said
            yield "configs", what, what, *resume(copy, whole, may_differ=False)


@contextlib.contextmanager
def temporary_copy(whole: Path) -> Iterator[Path]:
    """Copy a run, and remove the copy at the end of the block."""
    copy = whole.with_name("copy") / "run"
    shutil.copytree(whole, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy.parent)


def main(args: Args) -> None:
    count(args.kinds, partial(make_attempts, args), args.out, kinds=args.kinds, rounds=args.rounds)


if __name__ == "__main__":
    main(tyro.cli(Args))
