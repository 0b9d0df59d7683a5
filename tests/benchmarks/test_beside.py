"""What races compute: the peers' updates are those of supple, from the same weights on the same batches."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FOLDERS = [str(BENCHMARKS / name) for name in ("", "beside", "parts", "gpu")]


def run(code: str) -> None:
    """Run code in a process of its own, which finds the benchmarks."""
    begin = f"import sys, torch; torch.set_num_threads(1); sys.path[:0] = {FOLDERS}\n"
    done = subprocess.run([sys.executable, "-c", begin + textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_plain_update_of_simba_has_the_losses_of_ours() -> None:
    run("""
        import subjects
        from sides_sac import plain
        agent = subjects.simba(batch_size=8)
        batch, noise = subjects.transitions(agent)
        update = plain(agent)  # before ours, which starts from the same weights
        ours = torch.stack([agent.soft_update(batch, noise) for _ in range(3)])
        theirs = torch.stack([update(batch, noise) for _ in range(3)])
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    """)


def test_the_plain_loop_of_a_classifier_has_the_losses_of_the_stacks_first_seed() -> None:
    run("""
        import subjects
        from sides_classifiers import losses
        stack, theirs = subjects.Stacked(compiled=False), losses(None)
        for _ in range(30):
            stack()
            torch.testing.assert_close(stack.loss[0], next(theirs), rtol=0, atol=1e-3)
    """)


def test_every_file_finds_what_it_imports_from_others() -> None:
    needs_peers = ("simba_jax", "simba_v2_authors", "learning")
    names = sorted({file.stem for file in BENCHMARKS.rglob("*.py")} - set(needs_peers))
    run(f"import {', '.join(names)}")
