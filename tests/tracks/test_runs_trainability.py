"""`--trainability-every` of tracks with one network: it is logged, and changes no result."""

from pathlib import Path

import pytest

from supple.metrics import trainability
from supple.scripts.main import dispatch
from tests.tracks.logs import read_log

LINEAR = (
    "train linear --tasks random,reversal --lam 1 --n-in 3 --n-hidden 3 --n-out 3 --samples 6 --updates-per-task 12 "
    "--init-scale 0.5 --eval-every 0"
)
PRETRAIN = (
    "train pretrain --tokenizer bytes --layers 1 --width 16 --heads 2 --block-size 8 --batch-size 4 --micro-batch 4 "
    "--pretrain-steps 12 --steps 12 --warmup 2 --val-sequences 4 --eval-every 0 --dropout 0.1 --device cpu"
)
COMMON = "--measure-every 6 --checkpoint-every 8 --keep-checkpoints 9 --hook fire(steps=5)@task"


def words(kind: str, folder: Path) -> list[str]:
    if kind == "linear":
        return f"{LINEAR} {COMMON}".split()
    texts = [folder / f"{name}.txt" for name in ("first", "second")]
    for text, line in zip(texts, ("ash birch cedar elm\n", "amber beryl coral garnet\n"), strict=True):
        text.write_text(40 * line)
    return [*f"{PRETRAIN} {COMMON}".split(), "--first", str(texts[0]), "--second", str(texts[1])]


@pytest.mark.parametrize("kind", ["linear", "pretrain"])
def test_trainability_of_one_network_is_measured_around_a_switch_and_leaves_no_trace(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    run, without = tmp_path / "run", tmp_path / "without"
    line = words(kind, tmp_path)
    dispatch([*line, "--trainability-every", "8", "--out", str(run)])
    dispatch([*line, "--out", str(without)])
    last = "checkpoints/000000000024/state.safetensors"
    assert (run / last).read_bytes() == (without / last).read_bytes()
    measured = [line for line in read_log(run, "metrics") if "model/trainability" in line]
    assert [line["step"] for line in measured] == [0, 8, 12, 12, 16, 24]
    assert measured[0]["model/trainability"] == measured[0]["model/trainability/initial"] > 0
    (event,) = [event for event in read_log(run, "events") if event["event"] == "intervention"]
    assert {"trainability", "trainability/initial"} <= event["before"].keys() & event["after"].keys()
    assert all(line["model/update_ratio"] > 0 for line in read_log(run, "metrics") if "model/update_ratio" in line)
