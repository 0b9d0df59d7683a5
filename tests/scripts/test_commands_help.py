"""What the command line says about itself: examples, versions, near names, completion, lists."""

import contextlib
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from supple.engine.kinds import all_kinds, presets_of
from supple.registry.errors import UsageError
from supple.scripts import compare, train
from supple.scripts.cli.console import indent_commands, parse
from supple.scripts.cli.options import parse_request
from supple.scripts.list import TOPICS
from supple.scripts.main import COMMANDS, COMPLETION, dispatch

TRAINING = {"train": train, "compare": compare}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command prints that only informs."""
    with contextlib.suppress(SystemExit):  # of tyro's help
        dispatch(words)
    return capsys.readouterr().out


def commands(module: str) -> Iterator[list[str]]:
    """Yield the examples in a script's docstring, as the words behind `supple`."""
    text = indent_commands(importlib.import_module(f"supple.scripts.{module}").__doc__)
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.startswith("  supple "):
            yield shlex.split(line.split("   ")[0], comments=True)[1:]


@pytest.mark.parametrize("command", TRAINING)
@pytest.mark.parametrize("kind", all_kinds())
def test_every_kind_has_an_example_that_parses(command: str, kind: str) -> None:
    found = [words for words in commands(command) if words[1] == kind]
    assert found
    for words in found:
        what = parse_request(command, words[1:])
        if command == "compare":
            compare.parse_options(what)
        else:
            options = train.options_of(what.kind)
            parse(options, what.options, what.prog, "", options(settings=what.settings(), out=Path()))


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in (*TRAINING, "linear")])
def test_the_examples_of_a_command_parse(command: str) -> None:
    module = importlib.import_module(f"supple.scripts.{command}")
    found = [words[1:] for words in commands(command) if words[0] == command]
    assert found
    for words in found:
        if words:
            parse(module.Options, words, f"supple {command}", "")


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_kind_alone_shows_what_to_type_next(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, command, "ppo")
    assert f"  supple {command} ppo --" in text
    assert all(name in text for name in presets_of("ppo"))
    assert f"`supple {command} ppo --help`" in text


def test_the_help_of_a_kind_has_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "train", "linear", "--help")
    assert "  supple train linear --tasks" in text
    assert "supple train ppo" not in text


def test_version_prints_the_installed_versions(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--version").splitlines()
    assert lines[0] == f"supple {version('supple')}"
    assert {f"{name} {version(name)}" for name in ("torch", "gymnasium", "mujoco")} <= set(lines)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["train", "ppo", "--help"], ["--version"]])
def test_help_imports_no_torch(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = {['supple', *words]}; from supple.scripts.main import main\n"
        "try: main()\nexcept SystemExit: assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("--versoin", "did you mean '--version'?"),
        ("swep", "did you mean 'sweep'?"),
        ("train ppo --preset cyclin", "did you mean 'cycling-mujoco'? (presets of ppo: demo-mujoco,"),
        ("report --out x", "DIR is missing"),
        ("list presets --match qqq", "nothing found by `supple list presets --match qqq`"),
        ("--tyro-print-completion bsh", "did you mean 'bash'?"),
        ("--tyro-print-completion", "unknown shell '' (known: bash, zsh)"),
        ("--tyro-write-completion bash", "needs the FILE"),
    ],
)
def test_mistyped_names_are_answered_with_near_ones(line: str, answer: str) -> None:
    with pytest.raises(UsageError) as error:
        dispatch(shlex.split(line))
    assert answer in str(error.value)


@pytest.mark.slow
def test_bash_completes_commands_kinds_options_and_presets(tmp_path: Path) -> None:
    script = tmp_path / "supple.bash"
    with pytest.raises(SystemExit):
        dispatch([COMPLETION[1], "bash", str(script)])
    for line, found in {
        "supple tr": "train",
        "supple train ppo --activ": "--activation",
        "supple train ppo --schedule-over r": "run",
        "supple train ppo --preset cycling-mujoco-": "cycling-mujoco-v5",
        "supple train vision permuted-m": "permuted-mnist",
        "supple compare dqn --fork-at-": "--fork-at-task",
    }.items():
        words = line.split()
        code = (
            f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tyro_supple; echo ${{COMPREPLY[*]}}"
        )
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (found, "")


def test_a_list_fits_one_screen_and_counts_the_names_of_each_topic(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "list").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines[:-1])) <= 80
    assert "kinds  9  (supple train KIND, supple compare KIND)" in lines
    assert "  ppo, dqn, sac, vision, pretrain, sft, clip, continual, linear" in lines
    assert [line.split()[0] for line in lines if not line.startswith((" ", "`"))] == list(TOPICS)


def test_a_topic_is_listed_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    brief, whole = printed(capsys, "list"), printed(capsys, "list", "interventions")
    assert "snp(lam=" in whole
    assert "snp(lam=" not in brief
    assert any(line.startswith("  fire(") and "…" not in line for line in whole.splitlines())  # no terminal: not cut
    assert printed(capsys, "list", "hooks") == whole


def test_a_list_is_filtered_by_a_word_and_by_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "list", "--match", "DORMANT")
    names = {line.split()[0] for line in text.splitlines() if line.startswith("  ")}
    assert {"dormant_fraction", "redo(tau=0.0,"} & names
    assert all("dormant" in line.lower() for line in text.splitlines() if line.startswith("  "))
    text = printed(capsys, "list", "--kind", "linear")
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ") and line] == ["kinds", "suites"]
    assert "linear-reversal" in text


def test_benchmarks_and_suites_are_listed_apart_from_presets(capsys: pytest.CaptureFixture[str]) -> None:
    presets, benchmarks = printed(capsys, "list", "presets"), printed(capsys, "list", "benchmarks")
    assert "permuted-mnist" in benchmarks
    assert "permuted-mnist" not in presets
    assert "gym-control" in presets


def test_supple_without_arguments_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch([])
    said = capsys.readouterr().out
    assert all(re.search(rf"^  {name} +{about}$", said, re.MULTILINE) for name, about in COMMANDS.items())
