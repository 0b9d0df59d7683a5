"""The examples of the pages on extending: named plug-ins, a package with entry points, in every command."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from supple.experiments.history.logs import read_log
from supple.interventions import interventions, learner_for

HOWTO = Path(__file__).parent.parent / "docs/howto"
PAGES = [
    HOWTO / f"{name}.md"
    for name in ("extending", "add_intervention", "add_metric", "add_agent", "agent_network", "add_kind")
]  # in which commands of later ones use files of earlier ones


def blocks(language: str) -> list[str]:
    text = "".join(page.read_text() for page in PAGES)
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, and with what an installer writes from its pyproject.toml."""
    folder = tmp_path_factory.mktemp("extending")
    for block in blocks("python"):
        name, _, code = block.removeprefix("# ").partition("\n")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    for name, example in (("reinforce.py", "reinforce.py"), ("mine/slope.py", "slope.py")):
        shutil.copy(HOWTO / "examples" / example, folder / name)
    project = tomllib.loads(blocks("toml")[0])["project"]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return folder


@pytest.mark.slow
def test_every_command_of_the_page_works(package: Path) -> None:
    commands = [shlex.split(line, comments=True)[1:] for block in blocks("sh") for line in block.splitlines()]
    commands.append(["list", "kinds", "interventions", "--plugin", "reinforce.py", "--plugin", "halve.py"])
    script = package / "commands.py"  # forked from one process, since each of its own would import PyTorch anew
    script.write_text(
        "import os, sys, torch._dynamo, supple.agents.report, supple.agents.work, supple.experiments.conformance\n"
        "import supple.tracks.linear.work, supple.tracks.linear.report\n"
        "from supple.scripts.cli.console import run\n"
        "from supple.scripts.main import dispatch\n"
        f"for command in {commands} if __name__ == '__main__' else ():\n"
        "    sys.argv = ['supple', *command]\n"
        "    if not (child := os.fork()):\n"
        "        try:\n"
        "            run(dispatch)\n"
        "        except SystemExit as stop:\n"
        "            sys.stdout.flush()\n"
        "            os._exit(stop.code)\n"  # to take a large interpreter apart takes a second
        "    assert os.waitpid(child, 0)[1] == 0, command\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, script], cwd=package, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search("^ *slope .*^ *reinforce .*^ *halve.*^ *third", done.stdout, re.DOTALL | re.MULTILINE)  # listed

    events = read_log(package / "runs/first", "events")
    assert [event["hook"] for event in events if event["event"] == "intervention"] == ["my_method(rate=0.2)@task"]
    assert read_log(package / "runs/slopes", "tasks")[2]["step"] == 300
    assert any("policy/largest_weight" in line for line in read_log(package / "runs/c", "metrics"))
    assert (package / "runs/c/report/index.html").is_file()


def test_a_learner_offers_what_the_example_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interventions, "_entries", dict(interventions.loaded()))  # where the example registers itself
    (code,) = (block for block in blocks("python") if block.startswith("# distill.py"))
    names: dict[str, Any] = {}
    exec(compile(code, "distill.py", "exec"), names)
    module, x = nn.Linear(2, 1), torch.ones(3, 2)
    learner = learner_for(module, probe=lambda: (x,), loss=lambda: module(x).sum())
    distill = names["Distill"](strength=2.0)
    with pytest.raises(ValueError, match="'model' has no teacher"):
        distill.attach(learner)
    learner.offer(names["Teacher"](lambda: module(x).detach() + 3))
    distill.attach(learner)
    assert float(distill.penalty(learner).detach()) == pytest.approx(18.0)
