"""`supple` is a regular package, whatever the working directory holds, and its most used names are imported lazily."""

import ast
import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import supple


def python(code: str, folder: Path) -> list[object]:
    """What `code` appends to `said`, in a process that starts in a folder."""
    whole = f"import json; said = []\n{code}\nprint(json.dumps(said))"
    done = subprocess.run([sys.executable, "-c", whole], cwd=folder, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_importing_supple_imports_nothing_heavy_and_rooms_need_no_import_of_their_own(tmp_path: Path) -> None:
    code = "import sys, supple; said += [supple.__version__, 'torch' in sys.modules, 'numpy' in sys.modules]"
    code += "; said += [supple.registry.__name__, supple.interventions.parse_hook('fire@0.5').text]"
    expected = [metadata.version("supple"), False, False, "supple.registry", "fire@0.5"]
    assert python(code, tmp_path) == expected


def test_the_workflow_tries_every_python_that_the_package_names() -> None:
    root = Path(__file__).parent.parent
    (job,) = yaml.safe_load((root / ".github/workflows/tests.yml").read_text())["jobs"].values()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    named = [line for line in project["classifiers"] if "Python :: 3." in line]
    pythons = [line.split(" :: ")[-1] for line in named]
    assert project["requires-python"] == f">={pythons[0]}"
    assert job["strategy"]["matrix"]["python"] == pythons


def test_a_folder_called_supple_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    """As in the parent of a checkout, which is called supple and holds folders named as the rooms are."""
    for room in ("networks", "registry", "experiments"):
        (tmp_path / "supple" / room).mkdir(parents=True)
        (tmp_path / "supple" / room / "__init__.py").write_text("raise AssertionError('the checkout was imported')")
    code = "import supple, supple.registry; said += [supple.__file__, list(supple.__path__), supple.registry.__file__]"
    file, path, room_file = python(code, tmp_path)
    assert file
    assert not str(file).startswith(str(tmp_path))
    assert path == [str(Path(str(file)).parent)]
    assert Path(str(room_file)).parent.parent == Path(str(file)).parent


def test_the_most_used_names_are_those_of_their_rooms_and_completion_offers_these_and_rooms_only() -> None:
    from supple import experiments, interventions

    for name in ("train", "compare", "evaluate", "load", "resume"):
        assert getattr(supple, name) is getattr(experiments, name)
    assert supple.fire_ is interventions.fire_
    assert supple.parse_hook is interventions.parse_hook
    assert {*supple.__all__} <= {*dir(supple)}
    public = {name for name in dir(supple) if not name.startswith("__")}
    rooms = "agents engine envs experiments integrations interventions metrics networks registry reports tracks"
    assert public == {*f"compare evaluate fire_ load parse_hook resume train {rooms}".split()}


def test_type_checkers_see_the_names_and_find_those_that_do_not_exist() -> None:
    """They take a module's `__getattr__` for a promise that every name exists."""
    tree = ast.parse(Path(str(supple.__file__)).read_text(encoding="utf-8"))
    (branch,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(branch.test) == "TYPE_CHECKING"
    seen = {
        alias.asname or alias.name for node in branch.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {name for name in dir(supple) if not name.startswith("__")}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in functions


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'supple' has no attribute 'trian'"):
        supple.trian  # type: ignore[attr-defined]  # noqa: B018
