import json
import re
from pathlib import Path
from typing import Any

import pytest

from supple.tracks.language.examples import Example, load_task, read_examples
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

QUESTION = {
    "prompt": {"default": "Answer with a letter."}, "question": "How many?",
    "choices": {"text": ["1", "2"], "label": ["A", "B"]}, "answerKey": "B", "type": "mcq-4-choices", "answer": "",
}  # fmt: skip
BALANCE = {
    "prompt": {"default": "Balance."},
    "question": "H2 + O2",
    "answer": "2H2 + O2",
    "answerKey": "",
    "choices": {},
}


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def pairs(count: int, prefix: str = "q") -> list[dict[str, str]]:
    return [{"prompt": f"{prefix}{i}", "answer": f"a{i}"} for i in range(count)]


def test_prompt_and_answer_question_and_answer_and_lists_are_all_read(tmp_path: Path) -> None:
    lines = write(
        tmp_path / "a.jsonl", {"prompt": "p", "answer": 3, "system": "s"}, {"question": "q", "answer": "x\n#### 3"}
    )
    assert read_examples(lines) == (Example("p", "3", (), "s"), Example("q", "x\n#### 3"))
    trace = tmp_path / "b.json"
    trace.write_text(json.dumps([{"prompt": "p", "answer": "dovish"}]))
    assert read_examples(trace) == (Example("p", "dovish"),)


def test_a_sciknoweval_question_lists_its_options_and_has_a_letter_for_an_answer(tmp_path: Path) -> None:
    choice, open_ = read_examples(write(tmp_path / "a.jsonl", QUESTION, BALANCE))
    assert choice == Example("Answer with a letter.\n\nHow many?\n\nA) 1\nB) 2", "B", ("A", "B"))
    assert open_ == Example("Balance.\n\nH2 + O2", "2H2 + O2")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"prompt": "p"}', "not an object .*answer"),
        ('{"prompt": "p", "answer": ""}', "none of them blank"),
        ('{"prompt": "p", "answer": "a"', "not JSON"),
        ('["p", "a"]', "not an object"),
        ('{"prompt": "p", "answer": "c", "choices": ["a", "b"]}', "none of the choices"),
        (json.dumps({**QUESTION, "choices": {}}), "not an object .*label"),
    ],
)
def test_a_broken_line_is_named_with_its_file_and_number(tmp_path: Path, line: str, problem: str) -> None:
    file = write(tmp_path / "broken.jsonl", *pairs(1))
    file.write_text(f"{file.read_text()}\n{line}\n")
    refused = refusal(read_examples, file)
    assert refused.startswith(f"{file}, line 3")
    assert re.search(problem, refused)


@pytest.mark.parametrize("names", [("x_train.jsonl", "x_test.jsonl"), ("train.json", "test.json")])
def test_a_pair_of_train_and_test_files_is_used_whichever_is_named(tmp_path: Path, names: tuple[str, str]) -> None:
    for name, count in zip(names, (6, 3), strict=True):
        write(tmp_path / name, *pairs(count, name))
    tasks = [load_task(str(path), 0) for path in (tmp_path, *(tmp_path / name for name in names))]
    for task in tasks:
        assert {example.prompt for example in task.train} == {f"{names[0]}{i}" for i in range(6)}
        assert {example.prompt for example in task.test} == {f"{names[1]}{i}" for i in range(3)}
        assert "as given" in task.source


def test_the_working_directory_can_be_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", *pairs(10))
    monkeypatch.chdir(tmp_path)
    assert len(load_task(".", 0).train) == 8


def test_without_a_test_set_a_fifth_of_each_file_becomes_one_and_the_source_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *pairs(10, "a"))
    write(tmp_path / "b.jsonl", *pairs(5, "b"))
    task = load_task(str(tmp_path), seed=3)
    assert (len(task.train), len(task.test)) == (12, 3)
    assert sum(example.prompt.startswith("a") for example in task.test) == 2
    assert not set(task.train) & set(task.test)
    assert "20%" in task.source


def test_the_seed_draws_what_is_learned_and_not_what_is_tested(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *pairs(40))
    one, again, other = (load_task(str(tmp_path / "a.jsonl"), seed, train=10, test=4) for seed in (1, 1, 2))
    assert one == again
    assert one.test == other.test
    assert set(one.train) != set(other.train)
    assert one.description != other.description


def test_only_multiple_choice_questions_are_taken_where_that_is_asked_for(tmp_path: Path) -> None:
    questions = [
        {**question, "question": f"{question['question']} {i}"} for i in range(5) for question in (QUESTION, BALANCE)
    ]
    write(tmp_path / "mixed.jsonl", *questions)
    task = load_task(f"mcq:{tmp_path}", 0)
    assert len(task.train) + len(task.test) == 5
    assert all(example.choices for example in (*task.train, *task.test))


@pytest.mark.parametrize(("name", "score"), [("20Minuten", "sari"), ("Py150", "similarity"), ("FOMC", "accuracy")])
def test_tasks_of_trace_have_their_own_scores(tmp_path: Path, name: str, score: str) -> None:
    (tmp_path / name).mkdir()
    write(tmp_path / name / "all.jsonl", *pairs(4))
    assert load_task(str(tmp_path / name), 0).score == score


def test_tasks_without_examples_are_refused_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "x_train.jsonl", *pairs(2))
    write(tmp_path / "x_test.jsonl")
    (tmp_path / "empty").mkdir()
    assert "no examples to test" in refusal(load_task, str(tmp_path / "x_train.jsonl"), 0)
    assert "no examples" in refusal(load_task, str(tmp_path / "empty"), 0)
    pytest.importorskip("reasoning_gym")
    assert "did you mean" in refusal(load_task, "reasoning-gym:chain_sums", 0)
    assert "has no answers to learn" in refusal(load_task, "reasoning-gym:propositional_logic", 0, 2, 2)


def test_generated_tasks_repeat_and_never_test_a_question_that_was_learned() -> None:
    one, again, other = (load_task("reasoning-gym:chain_sum", seed, train=60, test=20) for seed in (1, 1, 2))
    assert one == again
    assert one.test == other.test
    assert one.train != other.train
    assert not {example.prompt for example in one.train} & {example.prompt for example in one.test}


def test_no_question_is_learned_and_tested_where_a_file_repeats_itself(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", *pairs(10), *pairs(10), *pairs(10))
    task = load_task(str(file), 0)
    tested = {example.prompt for example in task.test}
    assert len(task.test) == 6
    assert not tested & {example.prompt for example in task.train}
    assert len(task.train) == 30 - 3 * len(tested)
    assert f"{30 - 6 - len(task.train)} others that ask the same are left out" in task.source
