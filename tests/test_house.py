"""The plan of the house, checked on the source: which room may import what, and that nothing is unpickled."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGINE = {
    *("torch", "numpy", "scipy", "safetensors", "tensorboard", "psutil", "filelock", "tyro", "orjson"),
    *("wandb", "mlflow", "trackio"),
}
LIBRARIES: dict[str, set[str]] = {
    "registry": set(),
    "networks": {"torch", "numpy"},
    "interventions": {"torch"},
    "metrics": {"torch", "numpy", "scipy", "rliable"},
    "engine": ENGINE,
    "experiments": {"torch", "numpy", "scipy", "pandas", "orjson", "psutil", "filelock", "submitit", "optuna", "ray"},
    "reports": {"numpy", "scipy", "rliable", "rich", "matplotlib", "jinja2", "PIL", "markupsafe", "psutil", "torch"},
    "integrations": {"torch", "transformers", "lightning", "numpy", "gymnasium", "stable_baselines3"},
    "envs": {"numpy", "gymnasium", "mujoco", "ale_py"},
    "agents": {"torch", "numpy", "gymnasium", "tyro", "matplotlib"},
    "tracks": {
        *("torch", "numpy", "scipy", "safetensors", "PIL", "tyro", "matplotlib", "jinja2", "huggingface_hub"),
        *("transformers", "tokenizers", "reasoning_gym"),
    },
}
GROUND = {"registry", "networks", "interventions", "metrics"}
ROOMS: dict[str, set[str]] = {
    "registry": set(),
    "networks": {"registry"},
    "interventions": {"registry", "networks"},
    "metrics": {"registry", "networks"},
    "engine": GROUND,
    "experiments": {*GROUND, "engine"},
    "reports": {*GROUND, "engine", "experiments"},
    "integrations": {*GROUND, "engine"},
    "envs": {"registry"},
    "agents": {*GROUND, "engine", "experiments", "reports", "envs"},
    "tracks": {*GROUND, "engine", "experiments", "reports"},
}
EXCEPTIONS = {"agents/sb3.py": {"integrations"}}  # the public name of what lives there


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(file: Path, room: str) -> tuple[set[str], set[str]]:
    """(libraries, other rooms) that a file imports."""
    depth = len(file.relative_to(ROOT / room).parts)  # dots that lead out of the room: depth + 1
    libraries, rooms = set(), set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            libraries |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            libraries.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            rooms |= {(node.module or "").split(".")[0]} if node.module else {alias.name for alias in node.names}
    return libraries, rooms


@pytest.mark.parametrize("room", LIBRARIES)
def test_a_room_imports_only_its_libraries_and_the_rooms_below_it(room: str) -> None:
    for file in sources(room):
        libraries, rooms = imports(file, room)
        assert libraries - set(sys.stdlib_module_names) <= LIBRARIES[room], file
        assert rooms <= ROOMS[room] | EXCEPTIONS.get(str(file.relative_to(ROOT)), set()), file


def test_no_script_imports_another() -> None:
    """What several share lies in scripts/cli/."""
    for file in sources("scripts"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("supple.scripts"):
                assert f"{node.module}.".startswith("supple.scripts.cli."), file
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("supple.scripts") for alias in node.names), file


def test_nothing_reads_or_writes_pickle() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for room in [*LIBRARIES, "scripts"]:
        for file in sources(room):
            assert not imports(file, room)[0] & banned, file
            text = file.read_text()
            text = re.sub(r"torch\.load\([^()]*weights_only=True\)", "", text)  # of others' files: tensors, no objects
            assert not any(call in text for call in ("torch.load(", "torch.save(", "allow_pickle=True")), file


def test_only_the_console_prints() -> None:
    """Elsewhere, a text of a user could reach the terminal as it is, or end a run because the output fails."""
    printers = {"scripts/cli/console.py", "registry/streams.py", "experiments/board/page.py"}  # the last writes a page
    for room in [*LIBRARIES, "scripts"]:
        for file in sources(room):
            nodes = list(ast.walk(ast.parse(file.read_text())))
            called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
            if str(file.relative_to(ROOT)) not in printers:
                assert not called & {"print", "Console"}, file
            assert "rich.markup" not in {node.module for node in nodes if isinstance(node, ast.ImportFrom)}, file
