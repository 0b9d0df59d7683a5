"""The examples of docs/extending.md: a package of one's own, found by its entry point, in every command."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs/extending.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, and with what an installer writes from its pyproject.toml."""
    folder = tmp_path_factory.mktemp("extending")
    for block in blocks("python"):
        name, _, code = block.removeprefix("# ").partition("\n")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
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


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_command_of_the_page_works(package: Path) -> None:
    commands = [shlex.split(line)[1:] for block in blocks("sh") for line in block.splitlines()]
    script = package / "commands.py"  # one process, since every one of its own would import PyTorch anew
    script.write_text(
        "from supple.scripts.main import dispatch\n"
        f"if __name__ == '__main__':\n    for command in {[*commands, ['list', 'kinds']]}:\n        dispatch(command)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, script], cwd=package, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search("^ *slope .*^ *reinforce ", done.stdout, re.DOTALL | re.MULTILINE)  # listed as registered

    events = lines(package / "runs/a/events.jsonl")
    assert [event["hook"] for event in events if event["event"] == "intervention"] == ["halve(factor=0.9)@task"]
    assert any("model/largest_weight" in line for line in lines(package / "runs/a/metrics.jsonl"))
    assert sorted(path.name for path in (package / "runs/b/seed-1").iterdir()) == ["halve", "none", "trunk"]
    assert any("policy/largest_weight" in line for line in lines(package / "runs/c/metrics.jsonl"))
    assert (package / "runs/c/report/index.html").is_file()
