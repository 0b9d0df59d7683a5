"""Answers of language models: their generation, their likelihood, and their scores."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from .chat import IGNORED, Encoded, answer_ids, collate, end_of_turn, prompt_ids
from .examples import Example, TaskData
from .models import LanguageModel, silence_transformers
from .scores import score


def answer_nll(lm: LanguageModel, rows: Sequence[Encoded]) -> Tensor:
    """Return the summed negative log-likelihood of each example's answer in nats, (B,), differentiable."""
    logits, targets = _answer_logits(lm, rows)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none")
    return losses.view(targets.shape).sum(1)


def token_nll(lm: LanguageModel, rows: Sequence[Encoded]) -> Tensor:
    """Return the mean negative log-likelihood per token of each example's answer in nats, (B,), differentiable."""
    losses = answer_nll(lm, rows)
    return losses / torch.tensor([len(example.answer) for example in rows], device=losses.device)


def mean_nll(lm: LanguageModel, rows: Sequence[Encoded]) -> Tensor:
    """Return the mean negative log-likelihood over the tokens of all answers in nats, (), differentiable."""
    return answer_nll(lm, rows).sum() / answer_tokens(rows)


def answer_tokens(rows: Sequence[Encoded]) -> int:
    """Return the number of tokens of all answers."""
    return sum(len(example.answer) for example in rows)


def _answer_logits(lm: LanguageModel, rows: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """Return logits (B, columns, vocabulary) float32 and targets (B, columns) where some row has an answer.

    The head is applied at these positions only, which saves most of its work and memory."""
    tokens, labels, _ = (part.to(lm.device) for part in collate(rows, lm.pad))
    targets = labels[:, 1:]
    columns = (targets != IGNORED).any(0).nonzero().squeeze(1)
    return lm.model(tokens, use_cache=False, logits_to_keep=columns).logits.float(), targets[:, columns]


@torch.no_grad()
def answer_loss(lm: LanguageModel, encoded: Sequence[Encoded], batch_size: int = 8) -> float:
    """Return the mean negative log-likelihood per answer token over all examples, in nats, in evaluation mode.

    batch_size: Examples per forward pass."""
    ordered = sorted(encoded, key=len)
    parts = (ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size))
    return sum(float(answer_nll(lm, part).sum()) for part in parts) / answer_tokens(ordered)


def generate(
    lm: LanguageModel, examples: Sequence[Example], max_new_tokens: int, batch_size: int = 8,
    max_length: int | None = None,
) -> list[str]:  # fmt: skip
    """Return the model's answers to examples, decoded greedily, with a cache and left padding, in evaluation mode.

    Args:
        lm: The model and its tokenizer.
        examples: Their prompts, to which the chat template is added.
        max_new_tokens: Most tokens of an answer.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt, of which a longer one keeps the end. None: no limit.
    """
    ids = [prompt_ids(lm.tokenizer, example)[-(max_length or 0) :] for example in examples]
    stop = {*end_of_turn(lm.tokenizer)} | ({lm.tokenizer.eos_token_id} - {None})
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))  # little padding
    texts = [""] * len(ids)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        width = len(ids[rows[-1]])
        tokens, mask = (
            torch.tensor([[0] * (width - len(each)) + each for each in side], device=lm.device)
            for side in ([ids[i] for i in rows], [[1] * len(ids[i]) for i in rows])
        )
        with silence_transformers():  # of settings for sampling that the model came with
            written = lm.model.generate(  # type: ignore[operator]
                tokens, attention_mask=mask, max_new_tokens=max_new_tokens, do_sample=False, num_beams=1,
                repetition_penalty=1.0, eos_token_id=sorted(stop) or [-1], pad_token_id=lm.pad,
            )  # fmt: skip
        for row, answer in zip(rows, written[:, width:].tolist(), strict=True):
            end = next((i for i, token in enumerate(answer) if token in stop), len(answer))
            texts[row] = lm.tokenizer.decode(answer[:end], skip_special_tokens=True).strip()
    return texts


@torch.no_grad()
def choose(
    lm: LanguageModel, examples: Sequence[Example], batch_size: int = 8, max_length: int | None = None
) -> list[str]:
    """Return the choice of each multiple-choice question that is most likely after its prompt.

    This costs one forward pass per question, and one more for each choice of several tokens. It is cheaper than
    generation, and avoids the noise of finding the letter in a generated text. The score of a choice of several tokens
    is the sum of their log-likelihoods, without the end of the turn.

    Args:
        lm: The model and its tokenizer.
        examples: Questions with choices.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt with a choice. None: no limit.
    """
    rows: list[tuple[Encoded, int, dict[str, list[int]]]] = []  # what is passed, its question, choices to be read there
    for i, example in enumerate(examples):
        endings = {choice: answer_ids(lm.tokenizer, choice) for choice in example.choices}
        longest = max(map(len, endings.values()))
        prompt = prompt_ids(lm.tokenizer, example)
        prompt = prompt[-max(max_length - longest, 1) :] if max_length else prompt
        apart = [endings] if longest == 1 else [{choice: ending} for choice, ending in endings.items()]
        rows += [(Encoded(prompt + next(iter(read.values())), len(prompt)), i, read) for read in apart]
    best: list[tuple[float, str]] = [(float("-inf"), "")] * len(examples)
    rows.sort(key=lambda row: len(row[0]))
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        logits, targets = _answer_logits(lm, [encoded for encoded, _, _ in batch])
        logits, answered = logits.log_softmax(-1).cpu(), (targets != IGNORED).cpu()
        for (_, i, read), likelihoods, places in zip(batch, logits, answered, strict=True):
            own = likelihoods[places]  # (tokens of the answer, vocabulary)
            found = [(float(own[range(len(own)), ending].sum()), choice) for choice, ending in read.items()]
            best[i] = max(best[i], *found, key=lambda pair: pair[0])
    return [choice for _, choice in best]


def task_score(
    lm: LanguageModel, task: TaskData, *, max_new_tokens: int, batch_size: int = 8, max_length: int | None = None,
    examples: int | None = None,
) -> float:  # fmt: skip
    """Return the mean score of a task's test examples, in [0, 1].

    Questions with choices are answered by likelihood (`choose`), others by greedy generation, in evaluation mode.

    Args:
        lm: The model and its tokenizer.
        task: The task, whose `score` says how answers are compared.
        max_new_tokens: Most tokens of a generated answer.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt. None: no limit.
        examples: The number of test examples that are used, the first ones. None: all.
    """
    tested = task.test[:examples]
    closed = [example for example in tested if example.choices]
    open_ = [example for example in tested if not example.choices]
    answers = choose(lm, closed, batch_size, max_length) + generate(lm, open_, max_new_tokens, batch_size, max_length)
    pairs = zip(answers, [*closed, *open_], strict=True)
    return sum(score(task.score, text, example.answer, example.prompt) for text, example in pairs) / len(tested)
