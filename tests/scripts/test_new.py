"""`supple new` writes templates that pass their tests; `supple check` says which promises an intervention keeps."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import supple.experiments.conformance  # noqa: F401  (before processes are forked, which then need not import it)
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

pytestmark = pytest.mark.slow

Ask = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Return `ask(words)`: the exit status and output of `supple` in a process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run_supple(words: str) -> tuple[int, str, str]:
        sys.stdout.flush()
        if not (child := os.fork()):
            sys.argv = ["supple", *words.split()]
            try:
                run(dispatch)
            except SystemExit as stop:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(stop.code or 0))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, *capfd.readouterr()

    return run_supple


def passes(test: Path) -> bool:
    """Return whether pytest passes in a forked process, which need not import anything again."""
    if not (child := os.fork()):
        os._exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(test.parent), str(test)]))
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("what", ["intervention", "metric", "shift"])
def test_templates_pass_their_tests_unchanged(what: str, ask: Ask) -> None:
    code, said, errors = ask(f"new {what} my_own --out methods")
    assert (code, errors) == (0, "")
    assert sorted(path.name for path in Path("methods").iterdir()) == ["my_own.py", "test_my_own.py"]
    assert "--plugin methods/my_own.py" in said
    assert passes(Path("methods/test_my_own.py").absolute())
    code, said, _ = ask(f"list {what}s --plugin methods/my_own.py")
    assert (code, "my_own" in said) == (0, True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    {
        "new intervention there": "test_there.py exists already",
        "new intervention fire": "there already is an intervention 'fire'",
        "new shift random": "the file would hide the Python module 'random'",
    }.items(),
)
def test_existing_files_and_registered_names_are_refused(words: str, complaint: str, ask: Ask) -> None:
    Path("test_there.py").write_text("mine")
    code, _, errors = ask(words)
    assert (code, errors.count("\n")) == (2, 1)
    assert complaint in errors
    assert [path.name for path in Path().iterdir()] == ["test_there.py"]
    assert Path("test_there.py").read_text() == "mine"


def test_check_prints_the_promises_and_exits_with_1_if_one_is_broken(ask: Ask) -> None:
    ask("new intervention my_own")
    code, said, errors = ask("check my_own.py")
    assert (code, errors) == (0, "")
    assert said.count("✓") == 3 * 10 + 2  # two promises are about stacks
    Path("my_own.py").write_text(Path("my_own.py").read_text().replace("return names", "return names[1:]"))
    code, said, errors = ask("check my_own.py my_own(rate=0.5)")
    assert (code, errors) == (
        1,
        "supple: my_own.py: 1 promise is not kept (my_own(rate=0.5): names all that it wrote)\n",
    )
    assert "✗ plain: apply wrote conv.weight" in said


def test_checking_a_file_without_interventions_is_refused(ask: Ask) -> None:
    ask("new metric my_own")
    for words, complaint in {
        "check my_own.py": "my_own.py registers no intervention",
        "check my_own.py fier": "unknown intervention 'fier': did you mean 'fire'?",
        "check my_own.py swap": "swap needs a value for 'activation'",
    }.items():
        code, _, errors = ask(words)
        assert (code, errors.count("\n")) == (2, 1)
        assert complaint in errors
