"""What the start of a run imports."""

import subprocess
import sys
import textwrap
from pathlib import Path


def test_a_run_imports_neither_figures_nor_tests_of_significance(tmp_path: Path) -> None:
    code = """
        import atexit, sys
        heavy = {"matplotlib", "pandas", "scipy.stats", "scipy.optimize", "tabulate"}
        atexit.register(lambda: print(*sorted(heavy & set(sys.modules))))  # called last
        from supple.scripts.main import main
        main()
    """
    words = ["train", "ppo", "--env", "CartPole-v1", "--steps", "64", "--compile", "off", "--out", str(tmp_path / "a")]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words], check=True, capture_output=True, text=True
    )
    assert "\nresults " in done.stdout
    assert not done.stdout.splitlines()[-1]
