"""Examples as tokens: the model's chat template, with labels on the answer only."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .examples import Example

IGNORED = -100  # a label that does not count
MARK = "answer"
# Qwen3 would open a chain of thought, which the answers here do not have; LLaMA 3 would write what day it is, so that
# a run would not be the same tomorrow, and falls back to this day where it does not know.
TEMPLATE_SETTINGS = {"tokenize": False, "enable_thinking": False, "date_string": "26 Jul 2024"}


@dataclass(frozen=True)
class Encoded:
    """One example as tokens.

    ids: the tokens of the prompt, of the answer and of the end of its turn. prompt: the number of prompt tokens. cut:
    the number of tokens left out because of the maximum length."""

    ids: list[int]
    prompt: int
    cut: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def answer(self) -> list[int]:
        return self.ids[self.prompt :]


def encode(tokenizer: Any, examples: Sequence[Example], max_length: int) -> list[Encoded]:
    """Return the prompt and the answer of each example as tokens, at most max_length in all.

    The prompt is the chat template with its generation prompt. Prompt and answer are tokenized separately, so that the
    border is exact, and training sees the same tokens as generation. If an example is too long, the beginning of its
    prompt is cut, because the question and the generation prompt are at its end. If the answer alone is too long, its
    end is cut, with space for one token of the prompt.
    """
    end = end_of_turn(tokenizer)
    encoded = []
    for example in examples:
        prompt = prompt_ids(tokenizer, example)
        answer = [*answer_ids(tokenizer, example.answer), *end]
        length = len(prompt) + len(answer)
        answer = answer[: max_length - 1]
        prompt = prompt[max(len(prompt) + len(answer) - max_length, 0) :]
        encoded.append(Encoded(prompt + answer, len(prompt), length - len(prompt) - len(answer)))
    return encoded


def collate(encoded: Sequence[Encoded], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens (B, T) int64, labels (B, T) with −100 on prompt and padding, and the mask (B, T) of non-padding.

    Padding is on the right, where causal attention does not see it, so the loss does not need the mask.
    """
    ids = [torch.tensor(example.ids) for example in encoded]
    labels = [
        row.index_fill(0, torch.arange(example.prompt), IGNORED) for row, example in zip(ids, encoded, strict=True)
    ]
    rows = (ids, pad), (labels, IGNORED), ([torch.ones_like(row) for row in ids], 0)
    tokens, targets, mask = (pad_sequence(each, batch_first=True, padding_value=value) for each, value in rows)
    return tokens, targets, mask


def shortest_ids(encoded: Sequence[Encoded]) -> Tensor:
    """Return the tokens of examples, cut to the length of the shortest so that there is no padding, (B, T) int64."""
    shortest = min(map(len, encoded))
    return torch.tensor([example.ids[:shortest] for example in encoded])


def prompt_ids(tokenizer: Any, example: Example) -> list[int]:
    """Return the tokens that the model sees before it answers.

    A model without a chat template gets "Question: …\nAnswer:" instead, with one warning. If the template has no system
    turn (Gemma), the system text comes before the question.
    """
    if not tokenizer.chat_template:
        _warn_without_template(tokenizer.name_or_path or type(tokenizer).__name__)
        system = f"{example.system}\n" if example.system else ""
        begins = tokenizer("").input_ids[:1] == [tokenizer.bos_token_id]  # a sequence, with a token of its own
        text = f"{system}Question: {example.prompt}\nAnswer:"
        return [tokenizer.bos_token_id] * begins + _tokenize(tokenizer, text)
    return _tokenize(tokenizer, _render(tokenizer, example))


@cache
def _warn_without_template(name: str) -> None:
    """Warn once of each model."""
    message = f"the tokenizer of {name} has no chat template: prompts are written as 'Question: …\\nAnswer:' instead"
    warnings.warn(message, stacklevel=3)


def answer_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of an answer after the prompt, without the end of its turn."""
    text = text.strip()
    return _tokenize(tokenizer, text if tokenizer.chat_template else f" {text}")


def end_of_turn(tokenizer: Any) -> list[int]:
    """Return the token that ends an answer, as a list.

    This is the first special token after the answer in the template, or else the end-of-sequence token. The list is
    empty if the tokenizer has neither."""
    if tokenizer.chat_template:
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": MARK}]
        text = tokenizer.apply_chat_template(turns, **TEMPLATE_SETTINGS)
        special = set(tokenizer.all_special_ids)
        for token in _tokenize(tokenizer, text.rpartition(MARK)[2]):
            if token in special:
                return [token]
    return [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]


def _render(tokenizer: Any, example: Example) -> str:
    from jinja2.exceptions import TemplateError

    user = {"role": "user", "content": example.prompt}
    turns = [{"role": "system", "content": example.system}, user] if example.system else [user]
    settings = {**TEMPLATE_SETTINGS, "add_generation_prompt": True}
    try:
        return str(tokenizer.apply_chat_template(turns, **settings))
    except TemplateError:
        if not example.system:
            raise
        user["content"] = f"{example.system}\n\n{example.prompt}"
        return str(tokenizer.apply_chat_template([user], **settings))


def _tokenize(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)
