"""The examples in the docstrings of the two functions with which most people begin."""

import doctest

import pytest

from supple.tracks.linear import exact, weights


@pytest.mark.parametrize(("module", "name"), [(weights, "balanced_init"), (exact, "exact_qq")])
def test_the_example_in_the_docstring_prints_what_it_says(module, name):
    (example,) = (found for found in doctest.DocTestFinder().find(module) if found.name.endswith(f".{name}"))
    assert example.examples
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert not result.failed
