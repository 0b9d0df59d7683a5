"""The presets of changing worlds: each can be compared without further settings, and small ones differ in size only."""

from pathlib import Path

import pytest

from supple.engine.kinds import presets_of
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.scripts import compare
from supple.scripts.cli.options import parse_request

pytestmark = pytest.mark.slow

SUITES = (
    "frozen-lake", "nine-rooms", "priming", "replay-ratio", "slippery-ant", "cheetah-direction", "minatar",
    "continual-minatar",
)  # fmt: skip
ONE = ("minatar", "minatar-small")  # variant and task
SMALL = tuple(f"{name}-small" for name in SUITES if f"{name}-small" in presets_of())


def compared(name: str, out: Path) -> Comparison:
    """Return what `supple compare` would train, after all that it checks before."""
    kind = presets_of()[name].kind
    eager = ["--compile", "off"]  # whether it can be compiled takes seconds to find out
    what = parse_request("compare", [kind, "--preset", name, "--out", str(out), *eager])
    return create(out, compare.ask(what, compare.parse_options(what)).comparison("supple compare"), jobs=1)


@pytest.mark.parametrize("name", [*SUITES, *SMALL])
def test_every_suite_can_be_compared_from_the_beginning_on_three_seeds(name: str, tmp_path: Path) -> None:
    if "minatar" in name:
        pytest.importorskip("minatar")
    comparison = compared(name, tmp_path / "comparison")
    assert comparison.fork_step == 0
    assert comparison.arms[0] == "none"
    assert len(comparison.seeds) >= 3
    one_task = len(comparison.settings.plan_tasks()) == 1
    assert (comparison.arms[-1] == "fresh") == (not one_task)
    assert len(comparison.variants) == (2 if one_task and name not in ONE else 1)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_suite_is_the_full_one_in_another_size(name: str) -> None:
    small, full = presets_of()[name], presets_of()[name.removesuffix("-small")]
    sizes = {
        "env", "cycles", "steps", "steps_per_task", "hidden", "batch_size", "learning_rate", "measure_every",
        "replay_size", "learning_starts", "exploration_steps", "eval_every", "eval_episodes",
    }  # fmt: skip
    changed = {key for key in {**small.settings, **full.settings} if small.settings.get(key) != full.settings.get(key)}
    assert changed <= sizes
    assert small.vary.keys() == full.vary.keys()
    assert len(small.arms or ()) == len(full.arms or ())
