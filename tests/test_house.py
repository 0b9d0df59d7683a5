"""The plan of the house, checked on the source: sizes, names, and which room may import what."""

import ast
import sys
import tomllib
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGINE = {
    *("torch", "numpy", "scipy", "safetensors", "filelock", "tyro", "orjson", "msgspec"),
    *("wandb", "mlflow", "trackio", "huggingface_hub"),
}
LIBRARIES: dict[str, set[str]] = {
    "registry": set(),
    "networks": {"torch", "numpy"},
    "interventions": {"torch"},
    "metrics": {"torch", "numpy", "scipy"},
    "engine": ENGINE,
    "experiments": {
        "torch",
        "numpy",
        "scipy",
        "pandas",
        "orjson",
        "msgspec",
        "filelock",
        "submitit",
        "optuna",
        "ray",
        "tensorboard",
    },
    "reports": {"numpy", "scipy", "rich", "matplotlib", "jinja2", "PIL", "markupsafe", "torch"},
    "integrations": {"torch", "transformers", "lightning", "numpy", "gymnasium", "stable_baselines3"},
    "envs": {"numpy", "gymnasium", "mujoco", "ale_py", "minatar", "minigrid"},
    "agents": {"torch", "numpy", "gymnasium", "tyro", "matplotlib"},
    "tracks": {
        *("torch", "numpy", "scipy", "safetensors", "PIL", "tyro", "matplotlib", "jinja2", "huggingface_hub"),
        *("transformers", "tokenizers", "reasoning_gym"),
    },
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS: list[str] = PROJECT["tool"]["supple"]["rooms"]  # from the ground floor up
LOWER = {  # the rooms that a room may import, where these are not all below it
    "metrics": {"registry", "networks"},
    "integrations": {"registry", "networks", "interventions", "metrics", "engine"},
    "envs": {"registry"},
    "tracks": {*ROOMS[: ROOMS.index("integrations")]},
}
FOLDERS = {  # within a room: the folders from the lowest up; files beside them lie above all of them
    "engine": ["machine", "storage", "user_code", "hooks"],
    "experiments": ["queue", "comparisons", "history", "sweeps"],
    "reports": ["tables", "figures", "studies", "pages"],
}
WHOLE = {"runs", "commands"}  # what tests of whole runs and of whole command lines are named after
MOST_FILES = 16  # of a folder of these rooms and of scripts/cli, without __init__.py


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def modules() -> dict[str, Path]:
    """Return the file of each module, such as `engine.hooks.driver` (that of a package is its `__init__.py`)."""
    names = {}
    for room in ROOMS:
        for file in sources(room):
            parts = file.relative_to(ROOT).with_suffix("").parts
            names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


MODULES = modules()
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in MODULES.items()}


def imports(module: str) -> tuple[set[str], set[str]]:
    """Return the libraries and the modules of supple that a module imports: at its top, for types only, or lazily."""
    inside = ("supple", *MODULES[module].relative_to(ROOT).parent.parts)
    libraries, ours = set(), set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            libraries |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(inside[: len(inside) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            if source.split(".")[0] != "supple":
                libraries.add(source.split(".")[0])
                continue
            names = {f"{source}.{alias.name}".removeprefix("supple.") for alias in node.names}
            ours |= {name if name in MODULES else source.removeprefix("supple.") for name in names}
    return libraries, ours & MODULES.keys()


IMPORTS = {name: imports(name) for name in MODULES}


def layer(module: str) -> int:
    """Return how high a module lies within its room."""
    room, *folders = module.split(".")
    layers = FOLDERS.get(room, [])
    return layers.index(folders[0]) if folders and folders[0] in layers else len(layers)


def test_the_rooms_are_those_of_the_project() -> None:
    assert all((ROOT / room / "__init__.py").is_file() for room in ROOMS)
    for room, folders in FOLDERS.items():
        assert {path.parent.name for path in (ROOT / room).glob("*/__init__.py")} == {*folders}


@pytest.mark.slow
@pytest.mark.parametrize("room", LIBRARIES)
def test_a_room_imports_only_its_libraries(room: str) -> None:
    for name, (libraries, _) in IMPORTS.items():
        if name.split(".")[0] == room:
            assert libraries - set(sys.stdlib_module_names) <= LIBRARIES[room], name


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "most"), PROJECT["tool"]["supple"]["statements"].items())
def test_a_folder_has_no_more_statements_than_its_budget(folder: str, most: int) -> None:
    nodes = (node for file in sources(folder) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    assert sum(isinstance(node, ast.stmt) for node in nodes) <= most


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_imports_only_lower_rooms_and_lower_folders(room: str) -> None:
    """Not even for types, and not lazily."""
    lower = LOWER.get(room, {*ROOMS[: ROOMS.index(room)]})
    for name, (_, ours) in IMPORTS.items():
        if name.split(".")[0] == room:
            for module in ours:
                other = module.split(".")[0]
                assert other in {*lower, room}, f"{name} imports {module}"
                assert other != room or layer(module) <= layer(name), f"{name} imports {module}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    sorter = TopologicalSorter({name: ours - {name} for name, (_, ours) in IMPORTS.items()})
    sorter.prepare()  # raises CycleError, which names the circle


def test_a_class_name_is_defined_once() -> None:
    """Except the options of each script, and the public names of integrations, which are the same in each."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not (node.name == "Options" and name.startswith("scripts.")):
                places[node.name].append(name)
    del places["SuppleCallback"]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_folder_has_few_files() -> None:
    folders = [ROOT / room / folder for room in FOLDERS for folder in ("", *FOLDERS[room])]
    for folder in (*folders, ROOT / "scripts/cli"):
        assert len([file for file in folder.glob("*.py") if file.name != "__init__.py"]) <= MOST_FILES, folder


@pytest.mark.parametrize("room", ROOMS)
def test_a_file_of_tests_is_named_after_what_it_tests(room: str) -> None:
    """`test_NAME.py`, `test_NAME_ASPECT.py`: NAME is a file or folder at the same place of the room, or that folder."""
    for file in sorted((ROOT / "tests" / room).rglob("test_*.py")):
        folder = ROOT / file.parent.relative_to(ROOT / "tests")
        assert folder.is_dir(), file
        names = {path.stem for path in folder.iterdir() if path.suffix in ("", ".py")} | {folder.name} | WHOLE
        name = file.stem.removeprefix("test_")
        assert any(f"{name}_".startswith(f"{known}_") for known in names), file


def test_no_script_imports_another() -> None:
    """What several share lies in scripts/cli/."""
    for name, (_, ours) in IMPORTS.items():
        if name.startswith("scripts."):
            assert not {other for other in ours if other.startswith("scripts.") and other.split(".")[1] != "cli"}, name


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FLAT = ("reports", "agents/report", "tracks/*/report", "experiments/history")  # here none is inside another


def nesting(node: ast.AST) -> int:
    """Return how many comprehensions are inside each other at most."""
    inside = max(map(nesting, ast.iter_child_nodes(node)), default=0)
    return inside + isinstance(node, COMPREHENSIONS)


def test_comprehensions_are_not_nested_deeply() -> None:
    """A reader keeps one in mind, but not three, and what reports say should be easy to follow."""
    deep = {MODULES[name]: nesting(tree) for name, tree in TREES.items()}
    flat = {file for folder in FLAT for path in ROOT.glob(folder) for file in path.rglob("*.py")}
    assert flat <= deep.keys()
    assert {str(file) for file, depth in deep.items() if depth > (1 if file in flat else 2)} == set()
