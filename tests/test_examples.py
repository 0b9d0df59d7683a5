"""The functions that a user calls first have an example in their docstrings, which runs and prints what it says."""

import doctest
import importlib

import pytest
import torch

FIRST = (
    *("interventions.fire_", "interventions.orthogonalize", "interventions.shrink_perturb_", "interventions.sib_"),
    *("interventions.rebalance_", "interventions.make", "interventions.parse_hook", "interventions.activation"),
    *("interventions.learner_for", "metrics.sfe", "metrics.dfi", "metrics.srank", "metrics.effective_rank"),
    *("metrics.dormant_fraction", "metrics.hessian_eigenvalues", "metrics.plasticity_score"),
    *("metrics.generalization_gap", "metrics.measure", "tracks.linear.balanced_init", "tracks.linear.exact_qq"),
)


@pytest.mark.parametrize("name", FIRST)
def test_the_example_of_a_function_prints_what_it_says(name: str) -> None:
    room, _, function = name.rpartition(".")
    found = getattr(importlib.import_module(f"supple.{room}"), function)
    (example,) = doctest.DocTestFinder(recurse=False, exclude_empty=False).find(found, name, module=False, globs={})
    assert example.examples, f"{name} has no lines with >>> in its docstring"
    report: list[str] = []
    with torch.random.fork_rng(devices=[]):
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)
