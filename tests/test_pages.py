"""Every snippet and every command of README.md and of the pages in docs/start, docs/howto and docs/concepts runs.

The blocks of a page run in their order, in a process and a folder of the page's own. Python blocks share one namespace;
`sh` blocks hold commands of supple, one process each. A block that begins with a file's name in a comment is written to
that file. All other blocks are output, or belong to the site. Comments of the page are about the next block:

    <!-- not run: REASON -->         leave it out
    <!-- smaller: A → B; C → D -->   run it with B in place of A, and let commands train; without this comment commands
                                     that train are checked as far as their first step, and their folder is made
    <!-- before: CODE -->            run this Python first, or the file of this name
"""

import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from supple.experiments.queue import workers
from supple.scripts import worker
from supple.scripts.cli import training
from tests.conftest import run_here

ROOT = Path(__file__).parent.parent
FOLDERS = ("start", "howto", "concepts")
PAGES = [
    "README.md",
    *(str(f.relative_to(ROOT)) for name in FOLDERS for f in sorted((ROOT / "docs" / name).glob("*.md"))),
]
OWN_TEST = {  # pages whose blocks run in another test, which also looks at what comes out
    "docs/howto/torchrl.md": "test_torchrl_page.py",
    **{
        f"docs/howto/{page}.md": "test_extending.py"
        for page in ("extending", "add_intervention", "add_metric", "add_agent", "agent_network", "add_kind")
    },
}
PART = re.compile(r"<!--\s*(not run|smaller|before):(.*?)-->|^( *)```([^`\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.(?:py|toml|yaml))\n")

TRAINS = ((training, "finish_run"), (training, "finish_queue"), (worker, "work"))

Process = Callable[[Sequence[str], Path], int]


class Block(NamedTuple):
    line: int
    language: str
    code: str
    small: bool  # whether commands train


def blocks(text: str) -> Iterator[Block]:
    """Yield what runs of a page."""
    left_out, smaller = False, ""
    for part in PART.finditer(text):
        comment, words, indent, language, code = part.groups()
        line = text.count("\n", 0, part.start()) + 1
        if comment == "before":
            before = words.strip()
            if re.fullmatch(r"\S+\.py", before):
                before = (ROOT / before).read_text()
            yield Block(line, "python", before, False)
        elif comment == "not run":
            assert words.strip(), f"line {line}: why not?"
            left_out = True
        elif comment == "smaller":
            smaller = words
        else:
            code = re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
            for change in filter(str.strip, smaller.split(";")):
                old, new = map(str.strip, change.split("→"))
                assert old in code, f"line {line}: {old!r} is not in the block"
                code = code.replace(old, new)
            if not left_out:
                assert language or not re.search("^supple ", code, re.MULTILINE), f"line {line}: commands are `sh`"
                yield Block(line, language, code, bool(smaller))
            left_out, smaller = False, ""


def commands(code: str) -> list[list[str]]:
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str], small: bool, process: Process) -> None:
    assert words[0] == "supple", f"{words[0]}: only commands of supple are run"
    with pytest.MonkeyPatch.context() as patch:
        for module, name in () if small else TRAINS:
            patch.setattr(module, name, lambda *_, **__: None)
        errors = Path("errors.txt")
        code = os.waitstatus_to_exitcode(os.waitpid(process(words[1:], errors), 0)[1])
        assert code == 0, f"{shlex.join(words)}: exit status {code}: {errors.read_text()}"


def run_page(text: str, process: Process) -> None:
    workers.train_queue = run_here  # in this process alone, which ends with the page
    training.report_queue = lambda *_: None
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(text):
        try:
            if file := FILE.match(block.code):
                Path(file[1]).parent.mkdir(parents=True, exist_ok=True)
                Path(file[1]).write_text(block.code)
            elif block.language == "python":
                exec(compile(block.code, f"block of line {block.line}", "exec"), names)
            elif block.language == "sh":
                for words in commands(block.code):
                    run_command(words, block.small, process)
        except BaseException as error:
            raise AssertionError(f"line {block.line}: {error!r}") from error


@pytest.fixture(scope="module")
def imported() -> None:
    """What most pages need is imported once, before their processes are forked."""
    of_supple = ("experiments.results", "agents.ppo.work", "agents.report", "scripts.report")
    tracks = ("tracks.linear.work", "tracks.linear.report")
    for name in ("torch._dynamo", "pandas", *(f"supple.{name}" for name in (*of_supple, *tracks))):
        import_module(name)


@pytest.mark.slow
@pytest.mark.usefixtures("imported", "without_figures")
@pytest.mark.parametrize("page", [page for page in PAGES if page not in OWN_TEST])
def test_every_block_of_a_page_runs(page: str, tmp_path: Path, process: Process) -> None:
    child = os.fork()
    if not child:
        try:
            with open(tmp_path / "output.txt", "w") as output:
                os.dup2(output.fileno(), 1)
                sys.stdout = output
                os.chdir(tmp_path)
                sys.path.insert(0, str(tmp_path))
                run_page((ROOT / page).read_text(), process)
                os._exit(0)
        except BaseException:
            (tmp_path / "failure.txt").write_text(traceback.format_exc())
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, (tmp_path / "failure.txt").read_text()


def test_pages_whose_blocks_run_elsewhere_are_there() -> None:
    assert all((ROOT / page).is_file() and (ROOT / "tests" / test).is_file() for page, test in OWN_TEST.items())
