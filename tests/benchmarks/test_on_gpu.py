"""benchmarks/on_gpu.py: what has an outcome is not run again, whatever became of the process that was at it."""

import importlib.util
import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("on_gpu", ROOT / "benchmarks" / "on_gpu.py")
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, "on_gpu", module := importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "look", lambda environment: {"pytorch": "2", "gpu": ""})
    return module


def entry(on_gpu: Any, name: str, code: str = "", seconds: int = 30) -> Any:
    """Return an entry that writes its name to a file `ran` in the folder of results, and then does what `code` says."""
    begin = f"import os, sys, time; open(sys.argv[1] + '/ran', 'a').write('{name} ')"
    return on_gpu.Entry(name, seconds, ("-c", f"{begin}\n{textwrap.dedent(code)}", "OUT"), "", ())


def call(on_gpu: Any, out: Path, *words: str) -> tuple[int, str, dict[str, Any]]:
    """Return the exit status, the entries that ran so far, and the results."""
    status = on_gpu.main(["--simulated", "--out", str(out), *words])
    ran = (out / "ran").read_text().strip() if (out / "ran").exists() else ""
    return status, ran, json.loads((out / "results.json").read_text())


def test_an_entry_that_has_an_outcome_is_not_run_again(on_gpu: Any, tmp_path: Path) -> None:
    on_gpu.ENTRIES = (entry(on_gpu, "a", "print('{\"rate\": [2.5]}')"), entry(on_gpu, "b"))
    status, ran, found = call(on_gpu, tmp_path)
    assert (status, ran, list(found)) == (0, "a b", ["a", "b"])
    assert found["a"]["outcome"] == "done"
    assert found["a"]["numbers"] == {"rate": [2.5]}
    assert found["a"]["gpu"] == "simulated"
    assert call(on_gpu, tmp_path)[1] == "a b"
    assert call(on_gpu, tmp_path, "--again", "b")[1] == "a b b"


DRIVER = """
import sys
sys.path.insert(0, {benchmarks!r})
import on_gpu
begin = "import os; folder = {folder!r}; open(folder + '/ran', 'a').write('NAME ')\\n"
kill = "if not os.path.exists(folder + '/killed'): open(folder + '/killed', 'w'); os.kill(os.getppid(), 9)"
def entry(name, code):
    return on_gpu.Entry(name, 30, ("-c", begin.replace("NAME", name) + code), "", ())
on_gpu.ENTRIES = entry("a", ""), entry("b", kill), entry("c", "")
on_gpu.look = lambda environment: dict(pytorch="2", gpu="one")
sys.exit(on_gpu.main(["--out", {folder!r}]))
"""


def test_a_list_that_is_killed_goes_on_at_the_entry_that_was_at_work(tmp_path: Path) -> None:
    driver = DRIVER.format(benchmarks=str(ROOT / "benchmarks"), folder=str(tmp_path))
    codes = [subprocess.run([sys.executable, "-c", driver]).returncode for _ in range(2)]
    assert codes == [-9, 0]
    assert (tmp_path / "ran").read_text().split() == ["a", "b", "b", "c"]
    assert {one["outcome"] for one in json.loads((tmp_path / "results.json").read_text()).values()} == {"done"}


@pytest.fixture
def time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the time of an entry be up as soon as it has made this file; entries that never do have all they need."""
    up, wait = tmp_path / "up", subprocess.Popen.wait

    def wait_for_file(process: Any, timeout: float | None = None) -> int:
        while timeout and process.poll() is None:
            if up.exists():
                up.unlink()
                raise subprocess.TimeoutExpired("", timeout)
            time.sleep(0.01)
        return wait(process)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_for_file)
    return up


ENDLESS = """
    import subprocess
    print("begun", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    open(sys.argv[1] + "/up", "w")
    time.sleep(600)
"""


def test_an_entry_that_overruns_is_killed_with_its_children_and_the_next_one_runs(
    on_gpu: Any, tmp_path: Path, time_is_up: Path
) -> None:
    on_gpu.ENTRIES = (entry(on_gpu, "endless", ENDLESS), entry(on_gpu, "b"))
    status, ran, found = call(on_gpu, tmp_path)
    assert (status, ran) == (1, "endless b")
    assert found["endless"]["outcome"].startswith("killed after ")
    state = Path(f"/proc/{found['endless']['said'].split()[-1]}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"
    assert call(on_gpu, tmp_path)[1] == "endless b"  # it has its outcome


def test_an_entry_that_does_not_fit_into_the_budget_is_not_begun(
    on_gpu: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_gpu.ENTRIES = (entry(on_gpu, "long", seconds=100), entry(on_gpu, "short", seconds=1))
    status, ran, found = call(on_gpu, tmp_path, "--budget", "50")
    assert (status, ran, list(found)) == (0, "short", ["short"])
    assert "long: left out, 100 s of 50" in capsys.readouterr().out
    assert call(on_gpu, tmp_path, "--budget", "200")[1] == "short long"


def test_an_entry_that_the_budget_cuts_has_no_outcome(on_gpu: Any, tmp_path: Path, time_is_up: Path) -> None:
    on_gpu.ENTRIES = (entry(on_gpu, "a"), entry(on_gpu, "slow", ENDLESS, seconds=900))
    _, ran, found = call(on_gpu, tmp_path, "--budget", "1000")
    assert (ran, list(found)) == ("a slow", ["a"])


def test_a_failed_entry_is_recorded_with_what_it_said(on_gpu: Any, tmp_path: Path) -> None:
    on_gpu.ENTRIES = (entry(on_gpu, "bad", "sys.exit('no such kernel')"), entry(on_gpu, "b"))
    status, ran, found = call(on_gpu, tmp_path)
    assert (status, ran) == (1, "bad b")
    assert found["bad"]["outcome"] == "failed: 1"
    assert "no such kernel" in found["bad"]["said"]


def test_without_a_gpu_nothing_is_run(on_gpu: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="PyTorch finds no CUDA GPU here; --simulated tries the list without one"):
        on_gpu.main(["--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="no entry is called speed"):
        on_gpu.main(["--simulated", "--out", str(tmp_path), "--only", "speed"])


def test_the_list_has_every_test_that_needs_a_gpu(on_gpu: Any) -> None:
    need = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if "\n@needs_gpu" in file.read_text()
    }
    assert need == set(on_gpu.TESTS)


def test_every_entry_names_a_measurement_or_runs_that_exist(on_gpu: Any) -> None:
    measurements = (ROOT / "benchmarks/parts/entries.py").read_text()
    runs = (ROOT / "benchmarks/gpu/runs.py").read_text().replace("{method}", "moram")  # one of two
    for entry in on_gpu.ENTRIES:
        if entry.command[0] == on_gpu.MEASURE:
            assert f'"{entry.command[1]}": Entry(' in measurements
        elif entry.command[0] == on_gpu.RUNS:
            name = entry.command[entry.command.index("--runs") + 1].replace("inclora", "moram")
            assert f'"{name}": (' in runs, name
