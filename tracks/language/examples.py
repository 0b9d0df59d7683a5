"""Questions and answers from files and generators, for fine-tuning and testing language models."""

import hashlib
import importlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from supple.engine.seeding import derive, generator
from supple.registry import did_you_mean, one_line
from supple.registry.errors import UsageError

from .models import require

GENERATED, CHOICE_ONLY = "reasoning-gym:", "mcq:"
SPLITS = ("train", "test")
SUFFIXES = (".jsonl", ".json")
TEST_SHARE = 0.2  # of examples that come without a test set
GENERATED_COUNTS = (1000, 200)  # train, test
# How the tasks of TRACE are scored (Wang et al. 2023); all others by accuracy.
TRACE_SCORES = {"meetingbank": "rouge_l", "20minuten": "sari", "py150": "similarity"}


@dataclass(frozen=True)
class Example:
    """One question with its answer.

    choices: the possible answers, `answer` among them; () for a free answer. system: the text of the system turn, if
    any."""

    prompt: str
    answer: str
    choices: tuple[str, ...] = ()
    system: str = ""


@dataclass(frozen=True)
class TaskData:
    """The training and test examples of a task.

    score: accuracy, rouge_l, sari or similarity (see `answers.score`). source: where the examples come from and how
    they were divided, in words."""

    name: str
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    score: str = "accuracy"
    source: str = ""

    @property
    def description(self) -> str:
        """The source, with a fingerprint of all examples by which other data are detected."""
        text = json.dumps([[asdict(example) for example in part] for part in (self.train, self.test)])
        return f"{self.source} (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def load_task(text: str, seed: int, train: int | None = None, test: int | None = None) -> TaskData:
    """Return the examples that a text names.

    Without a test set, the examples of each file are shuffled, in the same way for every seed, and the last 20 % are
    the test set. Training questions that are also test questions are left out there, as they are among generated ones,
    so there may be fewer than asked for.

    Args:
        text: A file of examples (see `read_examples`), with the other split beside it if its name has train or test; a
            folder with such a pair, or with several files; or `reasoning-gym:NAME`, a seeded generator. `mcq:` before a
            file or folder selects its multiple-choice questions.
        seed: Draws the training examples: a subset of a file's if there are more than `train`, or the generated ones.
            The test examples are the same for every seed.
        train: Most training examples. None: all (of a generator 1000).
        test: Most test examples. None: all (of a generator 200).

    Raises UsageError if a file is missing, has no examples, or is damaged. The message names the file and the line.
    """
    if text.startswith(GENERATED):
        return _generate(text, seed, train, test)
    only_choices = text.startswith(CHOICE_ONLY)
    path = Path(text.removeprefix(CHOICE_ONLY)).expanduser()
    if not path.exists():
        forms = "a JSONL file, a folder of them, or reasoning-gym:NAME"
        raise UsageError(f"no such task: {text!r} (a task is {forms})")
    parts, how = _split_examples(path, only_choices)
    for split, examples in zip(SPLITS, parts, strict=True):
        if not examples:
            raise UsageError(f"task {text!r} has no examples to {'learn from' if split == 'train' else 'test'}")
    name = path.stem if path.is_file() else path.name
    for split in SPLITS:
        name = name.removesuffix(split).rstrip("_-.") or name
    chosen = _sample(parts[0], train, derive(seed, "examples", name))
    tested = _sample(parts[1], test, derive(0, "test examples"))
    score = next((score for key, score in TRACE_SCORES.items() if key in name.lower()), "accuracy")
    source = f"{text}: {how}; {len(chosen)} of {len(parts[0])} to learn, {len(tested)} of {len(parts[1])} to test"
    return TaskData(name, chosen, tested, score, source)


def read_examples(path: Path | str) -> tuple[Example, ...]:
    """Return the examples of a JSON Lines file or of a JSON list.

    Each is an object with prompt (or question) and answer, and optionally choices (a list of answers) and system; or a
    line of SciKnowEval with prompt.default, question, choices.text, choices.label and answerKey, whose answer is a
    letter.

    Raises UsageError if an entry is missing or invalid. The message names the file and the line, or the item
    of a list."""
    path = Path(path).expanduser()
    return tuple(_read_example(record, where) for record, where in _read_records(path))


# -- files ---------------------------------------------------------------------------------------------------------


def _read_records(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield (object, its place) for each example of a file."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file in UTF-8") from error
    if text.lstrip().startswith("["):
        yield from ((record, f"{path}, item {i}") for i, record in enumerate(_parse(text, str(path)), start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield _parse(line, where), where


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:  # also for numbers of too many digits
        raise UsageError(f"{where}: not JSON ({getattr(error, 'msg', error)})") from error


def _read_example(record: Any, where: str) -> Example:
    try:
        example = _read_sciknoweval(record) if "answerKey" in record else _read_plain(record)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where}: not an object with prompt (or question) and answer ({one_line(error)})") from error
    # a blank choice would be the most likely
    if not all(isinstance(x, str) and x.strip() for x in (example.prompt, example.answer, *example.choices)):
        raise UsageError(f"{where}: prompt, answer and choices must be texts, none of them blank")
    if example.choices and example.answer not in example.choices:
        raise UsageError(f"{where}: the answer {example.answer!r} is none of the choices")
    return example


def _read_plain(record: dict[str, Any]) -> Example:
    prompt = record["prompt" if "prompt" in record else "question"]
    choices, system = record.get("choices") or (), record.get("system") or ""
    return Example(_to_text(prompt), _to_text(record["answer"]), tuple(choices), system)


def _read_sciknoweval(record: dict[str, Any]) -> Example:
    """Return a line of SciKnowEval (Feng et al. 2024) as an example.

    The options of a multiple-choice question follow it, each with a letter and a bracket, and its answer is the letter.
    Other questions have their answer in `answer`."""
    lead = record.get("prompt") or ""
    lead = lead["default"] if isinstance(lead, dict) else lead
    prompt = f"{lead}\n\n{record['question']}".strip()
    if not (key := record["answerKey"]):
        return Example(prompt, _to_text(record["answer"]))
    labels, texts = record["choices"]["label"], record["choices"]["text"]
    lines = [f"{label}) {text}" for label, text in zip(labels, texts, strict=True)]
    return Example("\n".join([prompt, "", *lines]), key, tuple(labels))


def _to_text(value: Any) -> Any:
    """Return a bare number, as an answer often is, as text; anything else as it is."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _split_examples(path: Path, only_choices: bool) -> tuple[list[list[Example]], str]:
    """Return [train, test], and a description of how they were divided."""

    def read(files: Sequence[Path]) -> list[Example]:
        return [example for file in files for example in read_examples(file) if example.choices or not only_choices]

    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [path]
    if pair := _find_pair(path, files):
        return [read([file]) for file in pair], f"as given ({pair[0].name}, {pair[1].name})"
    if not files:
        raise UsageError(f"{path} has no examples: no .jsonl or .json file lies in it")
    parts: list[list[Example]] = [[], []]
    for file in files:
        shuffled = _sample(read([file]), None, derive(0, "split", file.name))
        tests = min(max(round(TEST_SHARE * len(shuffled)), 1), len(shuffled) // 2)
        parts[0] += shuffled[: len(shuffled) - tests]
        parts[1] += shuffled[len(shuffled) - tests :]
    tested = {example.prompt for example in parts[1]}
    learned = [example for example in parts[0] if example.prompt not in tested]
    how = f"the last {TEST_SHARE:.0%} of each file after a shuffle are the test set"
    if dropped := len(parts[0]) - len(learned):
        how += f" ({dropped} others that ask the same are left out)"
    return [learned, parts[1]], how


def _find_pair(path: Path, files: Sequence[Path]) -> tuple[Path, Path] | None:
    """Return the files of a given division: train.json and test.json, NAME_train.jsonl and NAME_test.jsonl, and so on.

    The partner of a file is in the same folder. A file without a partner is no pair."""
    for here, there in (SPLITS, SPLITS[::-1]) if path.is_file() else ():
        partner = path.with_name(path.stem[: -len(here)] + there + path.suffix)
        if path.stem.lower().endswith(here) and partner.is_file():
            files = [path, partner]
    by_split = [[file for file in files if file.stem.lower().endswith(split)] for split in SPLITS]
    return (by_split[0][0], by_split[1][0]) if [len(matches) for matches in by_split] == [1, 1] else None


def _sample(examples: Sequence[Example], count: int | None, seed: int) -> tuple[Example, ...]:
    """Return at most `count` of the examples, drawn at random, or all of them in random order if None."""
    if count is not None and count >= len(examples):
        count = None
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(seed)).tolist()
    return tuple(examples[i] for i in order[:count])


# -- generators ----------------------------------------------------------------------------------------------------


def _generate(text: str, seed: int, train: int | None, test: int | None) -> TaskData:
    """Return a data set of reasoning-gym (Stojanovski et al. 2025) with its default difficulty.

    Only the answer that it gives is correct here, even if its own check would accept others."""
    require("reasoning_gym", text)
    gym: Any = importlib.import_module("reasoning_gym")
    known_names = importlib.import_module("reasoning_gym.factory").DATASETS
    name = text.removeprefix(GENERATED)
    if name not in known_names:
        raise UsageError(f"reasoning-gym has no task {name!r}{did_you_mean(name, known_names)}")
    counts = [default if n is None else n for n, default in zip((train, test), GENERATED_COUNTS, strict=True)]
    seeds = [int(torch.randint(2**31, (), generator=generator(of, "reasoning-gym", split)))
             for of, split in ((seed, "train"), (0, "test"))]  # fmt: skip

    def draw(count: int, drawn: int) -> tuple[Example, ...]:
        entries = list(gym.create_dataset(name, size=count, seed=drawn))
        if any(entry["answer"] is None for entry in entries):
            raise UsageError(f"task {text!r} has no answers to learn: it only tells whether one is right")
        return tuple(Example(entry["question"], str(entry["answer"])) for entry in entries)

    tested = draw(counts[1], seeds[1])
    asked = {example.prompt for example in tested}
    learned = tuple(example for example in draw(counts[0], seeds[0]) if example.prompt not in asked)
    if not learned or not tested:
        raise UsageError(f"task {text!r} has no examples")
    source = f"{text}: {len(learned)} drawn with seed {seed} to learn, {len(tested)} with seed 0 to test"
    return TaskData(name, learned, tested, "accuracy", source)
