"""The folders in which HumanoidBench's files are found, and the errors if they are missing."""

import importlib
import sys
from pathlib import Path

import pytest

from supple.envs import EnvironmentFault, make_env
from supple.envs.h1 import H1_TASKS
from supple.envs.humanoid_assets import assets_folder, manifest
from supple.registry.cache import cache_folder


def fill(folder: Path) -> Path:
    for path in manifest():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine without these files, and return its folder."""
    monkeypatch.delenv("SUPPLE_HUMANOID_ASSETS", raising=False)
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages"), *sys.path])
    return tmp_path


def test_without_files_one_line_names_all_three_ways(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mujoco")
    for call in (assets_folder, lambda: make_env("h1-walk")):
        with pytest.raises((FileNotFoundError, EnvironmentFault)) as error:
            call()
        line = str(error.value)
        assert "\n" not in line
        for way in ("supple fetch humanoid-bench", "install humanoid_bench", "SUPPLE_HUMANOID_ASSETS"):
            assert way in line
    monkeypatch.setenv("SUPPLE_HUMANOID_ASSETS", "/no/such")
    with pytest.raises(FileNotFoundError, match=r"\(/no/such is not a folder\)"):
        assets_folder()


def test_the_package_comes_before_the_variable_and_that_before_the_cache(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
):
    cache = fill(nowhere / "cache" / "humanoid-bench")
    assert assets_folder() == cache
    named = fill(nowhere / "named")
    monkeypatch.setenv("SUPPLE_HUMANOID_ASSETS", str(named))
    assert assets_folder() == named
    package = nowhere / "packages" / "humanoid_bench"
    installed = fill(package / "assets")
    (package / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    importlib.invalidate_caches()
    assert assets_folder() == installed
    assert "humanoid_bench" not in sys.modules


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", "~/there")
    assert cache_folder() == Path.home() / "there"
    monkeypatch.delenv("SUPPLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/supple")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/supple"


def test_the_manifest_has_every_scene_and_only_plain_paths_below_the_folder():
    assert {f"envs/h1_pos_{task}.xml" for task in H1_TASKS} <= set(manifest())
    assert not any(Path(path).is_absolute() or ".." in Path(path).parts for path in manifest())
