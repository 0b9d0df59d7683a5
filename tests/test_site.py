"""The parts of the documentation site that can be wrong without a warning of Sphinx."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

core = pytest.importorskip("docutils.core", reason="extra docs")
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(autouse=True)
def docs_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    for name in set(sys.modules) - before:
        if name == "check" or name.partition(".")[0] == "extensions":
            del sys.modules[name]


def html(docstring: str) -> str:
    """Return a docstring as HTML without a warning."""
    from extensions.docstrings import rest

    errors = io.StringIO()
    settings = {"warning_stream": errors, "report_level": 1}
    parts = core.publish_parts("\n".join(rest(docstring)), writer="html5", settings_overrides=settings)
    assert not errors.getvalue()
    return str(parts["body"])


def test_single_backticks_are_code_and_nothing_else_has_a_meaning() -> None:
    shown = html("Return `a_b*c`s of W* and x_ with |h| and **params: `one`/`two`.")
    assert 'literal">a_b*c</span>s of' in shown
    assert "W* and x_ with |h| and **params" in shown


@pytest.mark.parametrize(
    "docstring",
    [
        "A. Author wrote this.\n  - an odd indent\n continues\nhere",
        "Args:\n    a, b: first\n  oddly indented\n\n    c: third\nand then prose.",
        ".. directive:: in a docstring\n::\n",
        "rate: ρ in [0, 1].\n    more\nperiod: updates\n\n    x ← y_\n\ntext::",
        "",
    ],
)
def test_every_docstring_becomes_valid_text(docstring: str) -> None:
    html(docstring)


def test_sections_keep_their_items_and_blocks_their_lines() -> None:
    shown = html("Do it.\n\n    W ← s·X_\n    b ← 0\n\nArgs:\n    rate: of the\n        update.\n    size: in units.")
    assert "W ← s·X_\nb ← 0" in shown
    assert "of the update." in shown
    assert shown.count("<li>") == 2


def test_known_symbols_become_equations_and_unknown_ones_stay_as_they_are() -> None:
    from extensions.equations import latex

    assert latex("s = √(d_out/d_in)") == r"s = \sqrt{d_{\mathrm{out}}/d_{\mathrm{in}}}"
    assert latex("S = Σ_j √v_j") is None
    assert latex("δ: the optimizer's steps") is None


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("<article><h1>a</h1><a href='b.html'>b</a></article>", "no such file"),
        ("<article><h1>a</h1><a href='#there'>b</a></article>", "no such anchor"),
        ("<article><h1>a</h1><img src='index.html'></article>", "no alt text"),
        ("<article><h1>a</h1><h3>b</h3></article>", "a heading of level 3 follows one of level 1"),
        ("<article><h2>a</h2></article>", "0 headings of level 1"),
        ("<article><h1>a</h1></article>", "the search does not find 'dormant'"),
    ],
)
def test_the_check_of_the_site_names_problems(tmp_path: Path, page: str, problem: str) -> None:
    from check import problems

    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "searchindex.js").write_text("{terms:{checkpoint:1,slurm:2,shrink:3}}", encoding="utf-8")
    assert problem in "\n".join(problems(tmp_path))
