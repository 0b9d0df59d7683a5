"""Answers of language models: their generation, their likelihood, and their scores."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .chat import IGNORED, Encoded, answer_ids, collate, end_of_turn, prompt_ids
from .examples import Example, TaskData
from .scores import score

__all__ = ["answer_loss", "answer_nll", "choose", "generate", "score", "task_score", "token_nll"]


def answer_nll(model: nn.Module, rows: Sequence[Encoded], pad: int) -> Tensor:
    """Return the summed negative log-likelihood of each example's answer in nats, (B,), differentiable.

    pad: The token for padding."""
    logits, targets = _answer_logits(model, rows, pad)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none")
    return losses.view(targets.shape).sum(1)


def token_nll(model: nn.Module, rows: Sequence[Encoded], pad: int) -> Tensor:
    """Return the mean negative log-likelihood per token of each example's answer in nats, (B,), differentiable."""
    losses = answer_nll(model, rows, pad)
    return losses / torch.tensor([len(example.answer) for example in rows], device=losses.device)


def _answer_logits(model: nn.Module, rows: Sequence[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    """Return logits (B, columns, vocabulary) float32 and targets (B, columns) where some row has an answer.

    The head is applied at these positions only, which saves most of its work and memory."""
    device = next(model.parameters()).device
    tokens, labels, _ = (part.to(device) for part in collate(rows, pad))
    targets = labels[:, 1:]
    columns = (targets != IGNORED).any(0).nonzero().squeeze(1)
    return model(tokens, use_cache=False, logits_to_keep=columns).logits.float(), targets[:, columns]


@torch.no_grad()
def answer_loss(model: nn.Module, encoded: Sequence[Encoded], pad: int, batch_size: int = 8) -> float:
    """Return the mean negative log-likelihood per answer token over all examples, in nats, in evaluation mode.

    Args:
        model: A causal language model of `transformers`.
        encoded: The examples, at least one.
        pad: The token for padding.
        batch_size: Examples per forward pass.
    """
    ordered = sorted(encoded, key=lambda example: len(example.ids))
    total, tokens = 0.0, sum(len(example.answer) for example in ordered)
    for start in range(0, len(ordered), batch_size):
        total += float(answer_nll(model, ordered[start : start + batch_size], pad).sum())
    return total / tokens


def generate(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[str | Example],
    max_new_tokens: int,
    batch_size: int = 8,
    max_length: int | None = None,
) -> list[str]:
    """Return the model's answers to the prompts, decoded greedily, with a cache and left padding, in evaluation mode.

    Args:
        model: A causal language model of `transformers`.
        tokenizer: Its tokenizer.
        prompts: Texts, to which the chat template is added, or examples, which may have a system turn.
        max_new_tokens: Most tokens of an answer.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt, of which a longer one keeps the end. None: no limit.
    """
    examples = [Example(prompt, "") if isinstance(prompt, str) else prompt for prompt in prompts]
    ids = [prompt_ids(tokenizer, example) for example in examples]
    ids = [prompt[-max_length:] for prompt in ids] if max_length else ids
    stop = {*end_of_turn(tokenizer)} | ({tokenizer.eos_token_id} - {None})
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))  # little padding
    texts = [""] * len(ids)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        for row, written in zip(
            rows, _decode_greedily(model, [ids[i] for i in rows], max_new_tokens, stop), strict=True
        ):
            texts[row] = tokenizer.decode(written, skip_special_tokens=True).strip()
    return texts


@torch.no_grad()
def _decode_greedily(model: nn.Module, prompts: Sequence[Sequence[int]], count: int, stop: set[int]) -> list[list[int]]:
    device = next(model.parameters()).device
    width = max(len(prompt) for prompt in prompts)
    tokens = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    stops = torch.tensor(sorted(stop), dtype=torch.int64, device=device)
    done = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    written, cache = [], None
    for _ in range(count):
        out = model(
            tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        cache = out.past_key_values
        tokens = out.logits[:, -1].argmax(-1, keepdim=True)
        written.append(tokens)
        done |= torch.isin(tokens[:, 0], stops)
        if done.all():
            break
        mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], 1)
        positions = positions[:, -1:] + 1
    rows = torch.cat(written, 1).tolist() if written else [[] for _ in prompts]
    return [row[: next((i for i, token in enumerate(row) if token in stop), len(row))] for row in rows]


@torch.no_grad()
def choose(
    model: nn.Module, tokenizer: Any, examples: Sequence[Example], batch_size: int = 8, max_length: int | None = None
) -> list[str]:
    """Return the choice of each multiple-choice question that is most likely after its prompt.

    This costs one forward pass per question, and one more for each choice of several tokens. It is cheaper than
    generation, and avoids the noise of finding the letter in a generated text. The score of a choice of several tokens
    is the sum of their log-likelihoods, without the end of the turn.

    Args:
        model: A causal language model of `transformers`.
        tokenizer: Its tokenizer.
        examples: Questions with choices.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt with a choice. None: no limit.
    """
    rows: list[Encoded] = []
    options: list[tuple[int, list[str], list[int]]] = []  # per row: question, choices, their first tokens if one each
    for i, example in enumerate(examples):
        prompt = prompt_ids(tokenizer, example)
        endings = [answer_ids(tokenizer, choice) for choice in example.choices]
        longest = max(len(ending) for ending in endings)
        prompt = prompt[-max(max_length - longest, 1) :] if max_length else prompt
        if longest == 1:
            rows.append(Encoded(prompt + endings[0], len(prompt)))
            options.append((i, list(example.choices), [ending[0] for ending in endings]))
        else:
            rows += [Encoded(prompt + ending, len(prompt)) for ending in endings]
            options += [(i, [choice], []) for choice in example.choices]
    best: list[tuple[float, str]] = [(float("-inf"), "")] * len(examples)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        likelihoods = _likelihoods(model, [rows[i] for i in batch], [options[i][2] for i in batch])
        for i, scores in zip(batch, likelihoods, strict=True):
            question, choices, _ = options[i]
            best[question] = max(best[question], *zip(scores, choices, strict=True), key=lambda pair: pair[0])
    return [choice for _, choice in best]


def _likelihoods(model: nn.Module, rows: Sequence[Encoded], options: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return log-likelihoods of each row's options, which are single tokens in the place of its answer.

    A row without options gets that of its answer.
    """
    logits, targets = _answer_logits(model, rows, 0)
    logits, answered, likelihoods = logits.log_softmax(-1).cpu(), (targets != IGNORED).cpu(), []
    for row, (encoded, tokens) in enumerate(zip(rows, options, strict=True)):
        own = logits[row, answered[row]]  # (tokens of the answer, vocabulary)
        summed = own[range(len(own)), encoded.answer].sum()
        likelihoods.append(own[0, list(tokens)].tolist() if tokens else [float(summed)])
    return likelihoods


def task_score(
    model: nn.Module, tokenizer: Any, task: TaskData, *, max_new_tokens: int, batch_size: int = 8,
    max_length: int | None = None, examples: int | None = None,
) -> float:  # fmt: skip
    """Return the mean score of a task's test examples, in [0, 1].

    Questions with choices are answered by likelihood (`choose`), others by greedy generation, in evaluation mode.

    Args:
        model: A causal language model of `transformers`.
        tokenizer: Its tokenizer.
        task: The task, whose `score` says how answers are compared.
        max_new_tokens: Most tokens of a generated answer.
        batch_size: Prompts per forward pass.
        max_length: Most tokens of a prompt. None: no limit.
        examples: The number of test examples that are used, the first ones. None: all.
    """
    tested = task.test[:examples]
    closed = [example for example in tested if example.choices]
    open_ = [example for example in tested if not example.choices]
    answers = choose(model, tokenizer, closed, batch_size, max_length) if closed else []
    answers += generate(model, tokenizer, open_, max_new_tokens, batch_size, max_length) if open_ else []
    pairs = zip(answers, [*closed, *open_], strict=True)
    return sum(score(task.score, text, example.answer, example.prompt) for text, example in pairs) / len(tested)
