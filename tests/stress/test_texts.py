"""Odd texts of users in every encoding and command, and output that fails: no traceback, the right exit status.

    pytest -s tests/stress/test_texts.py

`make test` leaves this folder out. Every command is run in this process with standard streams of the encoding, which
refuse what it lacks, as a pipe or as a terminal. Failing outputs are tried in processes, from a shell or a terminal.
"""

import csv
import io
import itertools
import os
import pty
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from xml.dom import minidom

import pytest

from supple.engine.user_code import plugins
from supple.interventions import interventions
from supple.registry import quoted, shown
from supple.reports.figures.style import Plot, legend, legend_text, new_figure, tidy
from supple.reports.pages import exports
from supple.reports.tables.table import Table
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))
ENCODINGS = ("utf-8", "ascii", "latin-1", "cp1252", "utf-16", "cp437")
TEXTS = {
    "markup": "[/red] x", "markup in a path": "a[bold]b", "emoji code": ":smile:", "esc": "\x1b]0;mine\x07\x1b[5m",
    "c1": "\x9b5mx", "newline": "a\nb  c", "tab": "a\tb\r", "not utf-8": "caf\udce9", "right to left": "\u202egnp.exe",
    "zero width": "a\u200bb\ufeff", "formula": "=1+1", "at": "@SUM(1)", "minus": "-x", "math": r"$\foo$",
    "dollar": "a$b", "hidden": "_x", "cjk": "名前 😀", "minus sign": "−5 ·…", "long": "x" * 150,
    "braces": "{x} {0} %s %(a)s",
    "quotes": "'\"; true `x` $(x)", "backslash": r"a\x1b\n", "html": "<script>alert(1)</script>&amp;",
    "latex": r"\end{x}%#^~",
    "vertical": "a\x0b\x0c\x1c\x85\u2028b", "hash": "#x", "spaces": " a  b ", "surrogate pair": "a\udcf0\udc9f",
}  # fmt: skip
NOT_IN_NAMES = re.compile("[/\0]")
# what no terminal may get from a text; rich's own sequences end in a letter, and move or colour
RICH = re.compile(r"\x1b\[\??[0-9;]*[A-DG-KSThlmn]")
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff\u2028\u2029\ud800-\udfff]")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class Said:
    """What a command printed, and its exit status; `problem` if it did not end well."""

    def __init__(self, words: Sequence[str], encoding: str = "utf-8", terminal: bool = False) -> None:
        made = Terminal if terminal else io.TextIOWrapper
        out, err = io.BytesIO(), io.BytesIO()
        before = sys.stdout, sys.stderr, sys.argv
        streams = [made(data, encoding, write_through=True) for data in (out, err)]
        sys.stdout, sys.stderr = streams
        sys.argv = ["supple", *words]
        self.problem, self.code = "", -1
        try:
            run(dispatch)
        except SystemExit as stop:
            self.code = int(stop.code or 0)
        except BaseException as error:
            self.problem = f"{type(error).__name__}: {error!r}"
        finally:
            sys.stdout, sys.stderr, sys.argv = before
            for stream in streams:
                stream.detach()
            plugins._loaded.clear()  # a process has its plug-ins once
            interventions._entries.pop("named", None)
            sys.modules.pop("named", None)
        self.out, self.err = out.getvalue().decode(encoding), err.getvalue().decode(encoding)
        for text in (self.out, self.err):
            if found := RAW.search(RICH.sub("", text).replace("\r", "") if terminal else text):
                self.problem = self.problem or f"raw {found[0]!r} in {text[max(0, found.start() - 40) :][:120]!r}"

    def ended(self, *codes: int) -> str:
        if self.problem:
            return self.problem
        if self.code not in codes:
            return f"exit status {self.code}: {self.err[-300:]}"
        if self.code and (self.err.count("supple: ") < 1 or "Traceback" in self.err):
            return f"no line: {self.err[-300:]}"
        return ""


def held(name: str, attempts: Iterator[tuple[str, str]]) -> None:
    """Count attempts, (what, problem or ""), and fail unless every one held."""
    every = list(attempts)
    wrong = [f"{what}: {problem}" for what, problem in every if problem]
    print(f"{name}: {len(every)} attempts, {len(every) - len(wrong)} held")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Comparisons in this process, and no warnings of libraries, which pytest turns into its own."""
    from supple.experiments.queue import workers
    from tests.conftest import run_here

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(workers, "train_queue", run_here)
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and a finished comparison, whose arm holds every kind of text."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "named.py").write_text(PLUGIN)
    assert Said(["train", "ppo", *PPO, "--out", str(folder / "run")]).ended(0) == ""
    words = ["compare", "ppo", *PPO, "--seeds", "0", "--plugin", str(folder / "named.py"), "--fork-at", "0"]
    arms = [word for i, text in enumerate(TEXTS.values()) for word in ("--arm", arm_of(text, i))]
    said = Said([*words, "--arm", "none", *arms, "--out", str(folder / "arms")], "ascii")
    assert said.ended(0) == ""
    return folder


PPO = shlex.split(
    "--env cartpole --steps 64 --num-envs 2 --rollout-steps 16 --minibatch-size 16 --epochs 1 --hidden 4 "
    "--eval-episodes 1 --checkpoint-every 32 --measure-every 32 --max-episode-steps 20"
)
PLUGIN = """
from supple.interventions import Intervention, interventions

@interventions.register("named")
class Named(Intervention):
    '''Do nothing to \\x1b]0;mine\\x07 [/red] and \\u202e.'''
    def __init__(self, text="", number=0):
        self.text, self.number = text, number
    def attach(self, learner):
        pass
"""


def arm_of(text: str, number: int) -> str:
    inner = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"named(text='{inner}',number={number})"


def place(base: Path, number: int, text: str) -> Path:
    folder = base / "places" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / NOT_IN_NAMES.sub("|", text)


def test_texts_as_paths_and_names_of_every_command(base: Path) -> None:
    """Run every command that takes a path or a name, with every text as its last part."""
    number = itertools.count()
    toml = '[s]\nkind = "linear"\nsettings = { tasks = "semantic", updates_per_task = 8, measure_every = 8 }\n'

    def attempts() -> Iterator[tuple[str, str]]:
        for i, (what, text) in enumerate(TEXTS.items()):

            def at(text: str = text) -> str:
                return str(place(base, next(number), text))

            copy, arms, file = at(), at(), at() + ".toml"
            shutil.copytree(base / "run", copy)
            shutil.copytree(base / "arms", arms)
            Path(file).write_text(toml + f"[about]\ntitle = {toml_text(text)}\n", encoding="utf-8")
            plugin = at() + ".py"
            shutil.copyfile(base / "named.py", plugin)
            (corpus := Path(at() + ".txt")).write_text("ash birch cedar elm fir\n" * 300)
            named = ["--plugin", str(base / "named.py")]
            commands: list[tuple[list[str], tuple[int, ...]]] = [
                (["train", "ppo", *PPO, "--out", at()], (0,)),
                (["resume", copy], (0,)),
                (["report", copy], (0,)),
                (["doctor", copy, "--updates", "1", "--out", at()], (0,)),
                (["worker", arms, *named], (0,)),
                (["report", arms, *named], (0,)),
                (["sweep", file, "--out", (swept := at()), "--jobs", "1"], (0,)),
                (["sweep", file, "--out", swept, "--jobs", "1"], (0,)),
                (["report", swept], (0,)),
                (["train", "ppo", *PPO, "--out", copy], (2,)),
                (["report", at()], (2,)), (["resume", at()], (2,)), (["worker", at()], (2,)),
                (["doctor", at()], (1, 2)), (["sweep", at(), "--out", at()], (2,)),
                (["doctor", f"{at()}.zip", "--sb3", "PPO", "--env", "CartPole-v1"], (1, 2)),
                (["doctor", f"{at()}.py:{text}"], (1, 2)),
                (["list", f"--match={text}"], (0, 2)), (["list", f" {text}"], (2,)), ([f" {text}"], (2,)),
                (["list", "--plugin", plugin], (0, 2)), (["check", plugin], (0, 1, 2)),
                (["new", "metric", text if text[0] != "-" else "+", "--out", at()], (0, 2)),
                (["new", "metric", "my_metric", "--out", at()], (0,)),
                (["fetch", f" {text}"], (2,)), (["fetch", "mnist", f"--source={at()}", f"--cache={at()}"], (1,)),
                (["train", "ppo", *PPO, f"--env={text}", "--out", at()], (2,)),
                (["train", "ppo", *PPO, f"--hook={text}", "--out", at()], (2,)),
                (["train", "ppo", *PPO, f"--seed={text}", "--out", at()], (2,)),
                (["train", "ppo", *PPO, f"--{text}=3", "--out", at()], (2,)),
                (["train", f" {text}", "--out", at()], (2,)),
                (["train", "vision", "permuted-mnist", "--data", at(), "--out", at()], (2,)),
                (["compare", "ppo", *PPO, f"--arm={text}", "--out", at()], (2,)),
                (["compare", "ppo", *PPO, f"--vary={text}=1", "--out", at()], (2,)),
                (["bench", f"--studies={text}"], (2,)), (["bench", f" {text}", "--out", at()], (1, 2)),
                (["sib", "--model", at(), "--retain", at(), "--out", at()], (1, 2)),
                (["linear", f" {text}"], (2,)),
                (["train", "pretrain", *pretrain(corpus), "--out", at()], (0,)),
            ]  # fmt: skip
            for j, (words, codes) in enumerate(commands):
                encoding, terminal = ENCODINGS[(i + j) % len(ENCODINGS)], (i + j) % 4 == 0
                label = f"{what} × {encoding}{' terminal' * terminal} × {' '.join(words[:2])} …: {words[-1]!r}"
                yield label, Said(words, encoding, terminal).ended(*codes)

    held("paths and names", attempts())


def pretrain(corpus: Path) -> list[str]:
    words = SMALL["RUNS"]["pretrain"].replace("snp(lam=0.5)@task", "none").split()
    return [str(corpus) if word == "TEXT" else word for word in words]


def toml_text(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode()
    return '"' + "".join(c if c.isalnum() else f"\\U{ord(c):08x}" for c in plain) + '"'


def test_texts_in_files_of_reports(base: Path) -> None:
    """Make pages, tables, figures and scores of a comparison whose arms are these texts."""
    said = Said(["report", str(base / "arms"), "--plugin", str(base / "named.py")], "cp1252", True)
    folder = base / "arms" / "report"

    def attempts() -> Iterator[tuple[str, str]]:
        yield "report", said.ended(0)
        for file in sorted(folder.rglob("*")):
            if file.suffix in CHECKS:
                yield str(file.relative_to(folder)), CHECKS[file.suffix](file.read_text(encoding="utf-8"))

    held("files of a report", attempts())


def test_texts_in_tables_and_figures(tmp_path: Path) -> None:
    """Use every text as a title, a column, a row, a cell, a label, a panel's title and a legend's entry."""

    def attempts() -> Iterator[tuple[str, str]]:
        for what, text in TEXTS.items():
            table = Table(text, [text, "b"], [[text, "−1.5 [−2, −1]"], ["-3", text], ["[x", f"x{text}"]], text)
            yield f"{what}: csv", as_csv(exports.as_csv(table))
            yield f"{what}: tex", as_latex(shown_lines(exports.as_latex(table)))
            (folder := tmp_path / str(len(what)) / re.sub(r"\W", "", what)).mkdir(parents=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                figure_of(text).save(folder)
            yield f"{what}: warnings of a figure", "; ".join(str(each.message) for each in caught)
            drawn = (folder / "one.svg").read_text(encoding="utf-8")
            yield f"{what}: svg", as_xml(drawn)
            yield f"{what}: in a legend", "hidden" if legend_text(text).startswith("_") else ""

    held("tables and figures", attempts())


def figure_of(text: str) -> Plot:
    figure = new_figure(3.0)
    left, right = figure.subplots(1, 2, sharey=True)
    tidy(left, text)
    left.barh([0, 1], [1, 2])
    left.set_yticks([0, 1], [text, "b"])
    right.set_xscale("log")
    right.plot([1, 1000], [0, 1])
    left.set_xlabel(text)
    legend(figure, [text, "none", "b"])
    return Plot("one", text, text, figure)


def shown_lines(text: str) -> str:
    return "\n".join(map(shown, text.split("\n")))


def as_csv(text: str) -> str:
    if found := RAW.search(text):
        return f"raw {found[0]!r}"
    rows = list(csv.reader(io.StringIO(text)))
    if len({len(row) for row in rows}) > 1:
        return "ragged"
    bad = [c for row in rows for c in row if c.lstrip()[:1] in tuple("=+-@\t\r") and c and not re.fullmatch(NUMBER, c)]
    return f"a formula: {bad[0]!r}" if bad else ""


NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?%?"


def as_latex(text: str) -> str:
    if found := RAW.search(text):
        return f"raw {found[0]!r}"
    body = "\n".join(line for line in text.split("\n") if not line.startswith("%"))
    bare = re.sub(r"\\[{}]", "", body)
    if bare.count("{") != bare.count("}"):
        return "unbalanced braces"
    if re.search(r"(\\\\|rule)\s*[\[*]", bare):
        return "a cell is taken for an option"
    if bare.count("$") - bare.count(r"\$") & 1 or bare.count("\\end{") != 2:
        return "unbalanced mathematics or environments"
    return "a comment" if re.search(r"(?<!\\)[%#]", body) else ""


def as_xml(text: str) -> str:
    try:
        minidom.parseString(text.encode())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def as_html(text: str) -> str:
    if found := RAW.search(text):
        return f"raw {found[0]!r}"
    HTMLParser().feed(text)
    return "a text became a script" if "<script>alert" in text else ""


def as_json(text: str) -> str:
    import json

    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""


CHECKS = {".csv": as_csv, ".tex": as_latex, ".svg": as_xml, ".html": as_html, ".json": as_json}


def test_a_shell_reads_quoted_words_back(tmp_path: Path) -> None:
    def attempts() -> Iterator[tuple[str, str]]:
        for encoding, (what, text) in itertools.product(("utf-8", "ascii"), TEXTS.items()):
            before, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), encoding)
            try:
                word = quoted(text)
                word.encode(encoding)
            finally:
                sys.stdout = before
            done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True)
            yield f"{what} × {encoding}", "" if done.stdout == os.fsencode(text) else f"{word}: {done.stdout!r}"

    held("quoted words", attempts())


# -- output that fails ------------------------------------------------------------------------------------------------


def gone() -> int:
    """A pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def hung_up() -> int:
    """A terminal whose window was closed."""
    ours, theirs = pty.openpty()
    os.close(ours)
    return theirs


Where = Callable[[], int] | None  # None: closed, as by `>&-`
OUTPUTS: dict[str, tuple[Where, Where]] = {
    "no reader": (gone, nowhere), "both without a reader": (gone, gone), "full": (full, nowhere),
    "both full": (full, full), "closed": (None, nowhere), "both closed": (None, None), "errors full": (nowhere, full),
    "errors closed": (nowhere, None), "a terminal that is gone": (hung_up, hung_up),
    "its output alone": (hung_up, nowhere),
}  # fmt: skip


def child(words: Sequence[str], out: Where, err: Where, first_line: bool = False, terminal: bool = False) -> int:
    """Run `supple` in a fork with these outputs, and return its exit status.

    first_line: Its output goes to a reader, or a terminal, that goes after the first line."""
    ours, theirs = (pty.openpty() if terminal else os.pipe()) if first_line else (-1, -1)
    if not (number := os.fork()):
        try:
            if first_line:
                os.close(ours)
            for place, made in ((1, out), (2, err)):
                if first_line and place == 1:
                    os.dup2(theirs, 1)
                elif made is None:
                    os.close(place)
                else:
                    os.dup2(made(), place)
            for place, name, made in ((1, "stdout", out), (2, "stderr", err)):
                setattr(sys, name, None if made is None else open(place, "w", closefd=False))  # noqa: SIM115
            sys.argv = ["supple", *words]
            warnings.simplefilter("ignore")
            run(dispatch)
        except SystemExit as stop:
            os._exit(int(stop.code or 0))
        finally:
            os._exit(70)
    if first_line:
        os.close(theirs)
        with suppress(OSError):
            while os.read(ours, 1) not in (b"", b"\n"):
                pass
        os.close(ours)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def test_commands_whose_output_fails(base: Path) -> None:
    """Runs finish with exit status 0; commands that only print fail if nobody can read them."""
    number, work = itertools.count(), base / "failing"
    work.mkdir()
    (work / "s.toml").write_text('[s]\nkind = "linear"\nsettings = { tasks = "semantic", updates_per_task = 8 }\n')
    hooks = ["--arm", "none", "--arm", "snp@0.5", "--seeds", "0"]
    cut = work / "cut"
    shutil.copytree(base / "run", cut)
    for file in (cut / "checkpoints").glob("*64"):
        shutil.rmtree(file)

    def training() -> dict[str, list[str]]:
        out = work / str(next(number))
        begun = work / f"begun {out.name}"
        shutil.copytree(cut, begun)
        return {
            "train": ["train", "ppo", *PPO, "--out", f"{out}-t"],
            "compare": ["compare", "ppo", *PPO, *hooks, "--jobs", "1", "--out", f"{out}-c"],
            "sweep": ["sweep", str(work / "s.toml"), "--jobs", "1", "--out", f"{out}-s"],
            "resume": ["resume", str(begun)],
        }

    def ended(words: Sequence[str], code: int) -> str:
        folder = Path(words[-1])
        done = any(folder.rglob("checkpoints/*64")) or any(folder.rglob("outcome.json"))
        return "" if (code, done) == (0, True) else f"exit status {code}, {'' if done else 'not '}at its end"

    def attempts() -> Iterator[tuple[str, str]]:
        for how, (out, err) in OUTPUTS.items():
            for kind, words in training().items():
                yield f"{kind} × {how}", ended(words, child(words, out, err))
        for terminal in (False, True):
            how = "a terminal that goes" if terminal else "a reader that goes"
            for kind, words in training().items():
                yield f"{kind} × {how}", ended(words, child(words, nowhere, nowhere, True, terminal))
        printing = (
            ["list"],
            ["--help"],
            ["report", str(base / "run")],
            ["doctor", str(base / "run"), "--updates", "1"],
        )
        codes = {
            "no reader": 141, "both without a reader": 141, "full": 1, "both full": 1, "closed": 0, "both closed": 0,
            "errors full": 0, "errors closed": 0, "a terminal that is gone": 1, "its output alone": 1,
        }  # fmt: skip
        for words in printing:
            for how, (out, err) in OUTPUTS.items():
                code = child(words, out, err)
                yield f"{words[0]} × {how}", "" if code == codes[how] else f"exit status {code}"

    held("output that fails", attempts())


def test_workers_of_a_command_whose_output_nobody_reads(base: Path) -> None:
    """Real processes, from a shell."""

    def attempts() -> Iterator[tuple[str, str]]:
        for i, shell in enumerate(("{} 2>&1 | true", "{} > /dev/full 2>&1", "{} <&- >&- 2>&-")):
            out = base / f"shell {i}"
            words = ["compare", "ppo", *PPO, "--arm", "none", "--arm", "snp@0.5", "--jobs", "2", "--out", str(out)]
            command = shlex.join([sys.executable, "-m", "supple.scripts.main", *words])
            line = f"{shell.format(command)}; exit ${{PIPESTATUS[0]}}"
            code = subprocess.run(["bash", "-c", line], env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode
            ends = len([*out.rglob("outcome.json")])
            yield shell, "" if code == 0 and ends >= 2 else f"exit status {code}, {ends} runs"

    held("workers whose parent has no reader", attempts())
