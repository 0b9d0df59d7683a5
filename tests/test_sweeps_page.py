"""The sweep files and the Python of docs/howto/sweeps.md, and the files of workers in docs/howto/examples."""

import re
from pathlib import Path

import pytest
import yaml

from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.sweep import open_sweep
from supple.scripts.main import dispatch

pytestmark = pytest.mark.slow

HOWTO = Path(__file__).parent.parent / "docs" / "howto"
PAGE = HOWTO / "sweeps.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_sweep_file_of_the_page_comes_to_its_runs(tmp_path: Path) -> None:
    text, _ = blocks("toml")
    (tmp_path / "rates.toml").write_text(text)
    jobs = read_sweep(tmp_path / "rates.toml").preview(tmp_path / "out")
    arms = {job.spec.labels.arm for job in jobs}
    assert arms == {None, "none", "fire@task", "l2_init(strength=0.0001)", "l2_init(strength=0.001)", "fresh"}
    assert sum(len(job.spec.seeds) for job in jobs) == 5 * 2 * len(arms)


def test_the_search_of_the_page_tunes_every_arm_at_as_many_points(tmp_path: Path) -> None:
    _, text = blocks("toml")
    (tmp_path / "tuned.toml").write_text(text)
    (study,) = read_sweep(tmp_path / "tuned.toml", method="random").studies
    (tuning, _), (results, _) = study.comparisons(lambda *_: 0.0).values()
    assert len(tuning.points) == 3 * 12
    assert [arm.partition(" + ")[2].partition("=")[0] for arm, _ in results.points if arm != "fresh"] == [
        "learning_rate"
    ] * 3


def test_the_python_of_the_page_makes_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, str(PAGE), "exec"), {})
    jobs = open_sweep(Path("runs/python"))
    assert sum(len(job.spec.seeds) for job in jobs) == 3 * (
        2 * 2
    )  # a trunk and two arms, of two seeds and two step sizes


def test_workers_on_kubernetes_and_by_skypilot_take_the_runs(tmp_path: Path) -> None:
    """The command in the files works here, and the sweep lies where both have their shared volume."""
    job, task = (
        yaml.safe_load((HOWTO / "examples" / f"{name}.yaml").read_text()) for name in ("kubernetes", "skypilot")
    )
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert list(task["volumes"]) == [mount["mountPath"] for mount in container["volumeMounts"]]
    (tmp_path / "s.toml").write_text(
        '[lin]\nkind = "linear"\nsettings = { tasks = "semantic,reversal", updates_per_task = 5 }\n'
    )
    jobs = read_sweep(tmp_path / "s.toml").begin(tmp_path / "runs/rates")
    for command in (container["command"], task["run"].split()):
        name, *words = [word.replace("/shared", str(tmp_path)) for word in command]
        assert name == "supple"
        dispatch(words)
        assert not any(job.open for job in jobs)
