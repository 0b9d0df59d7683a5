import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.tracks.language.chat import IGNORED, collate, encode, end_of_turn, prompt_ids
from supple.tracks.language.examples import Example
from supple.tracks.language.tiny_llama import byte_tokenizer

pytestmark = pytest.mark.slow

NEWLINES = (
    "{% for m in messages %}{{ m['role'] + '\n' + m['content'] | trim }}<|end|>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn') }}{% endif %}" + NEWLINES
TOKENIZER = byte_tokenizer()


def with_template(template: str | None) -> object:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_prompt_and_answer_make_up_the_rendered_conversation() -> None:
    (encoded,) = encode(TOKENIZER, [Example("How?", "So.")], 100)
    turns = [{"role": "user", "content": "How?"}, {"role": "assistant", "content": "So."}]
    assert TOKENIZER.decode(encoded.ids) == TOKENIZER.apply_chat_template(turns, tokenize=False)
    rendered = TOKENIZER.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True)
    assert TOKENIZER.decode(encoded.ids[: encoded.prompt]) == rendered
    assert TOKENIZER.decode(encoded.answer) == "So.<|end|>"


def test_the_label_ends_with_the_turn_and_not_with_what_the_template_puts_behind_it() -> None:
    tokenizer = with_template(NEWLINES)
    (encoded,) = encode(tokenizer, [Example("How?", " So. ")], 100)
    assert tokenizer.decode(encoded.answer) == "So.<|end|>"
    assert end_of_turn(tokenizer) == [tokenizer.eos_token_id]


@settings(max_examples=20)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_labels_are_the_answers_and_nothing_else(texts: list[tuple[str, str]]) -> None:
    encoded = encode(TOKENIZER, [Example(prompt, answer) for prompt, answer in texts], 200)
    tokens, labels, mask = collate(encoded, TOKENIZER.pad_token_id)
    for row, example in enumerate(encoded):
        assert tokens[row][mask[row].bool()].tolist() == example.ids
        assert labels[row][labels[row] != IGNORED].tolist() == example.answer
        assert (labels[row, : example.prompt] == IGNORED).all()


def test_a_long_prompt_loses_its_beginning_and_a_long_answer_its_end() -> None:
    example = Example("x" * 50, "yes")
    whole, cut, tiny = (encode(TOKENIZER, [example], length)[0] for length in (200, 20, 3))
    assert whole.cut == 0
    assert cut.ids == whole.ids[-20:]
    assert cut.answer == whole.answer
    assert cut.cut == len(whole.ids) - 20
    assert tiny.ids == [whole.ids[whole.prompt - 1], *whole.answer[:2]]


def test_without_a_template_a_plain_form_is_used_and_said_once() -> None:
    tokenizer = with_template(None)
    tokenizer.name_or_path = "no/template"
    with pytest.warns(UserWarning, match="no/template has no chat template"):
        (encoded,) = encode(tokenizer, [Example("How?", "So.", (), "Be brief.")], 100)
    assert tokenizer.decode(encoded.ids) == "Be brief.\nQuestion: How?\nAnswer: So.<|end|>"
    assert tokenizer.decode(encoded.answer) == " So.<|end|>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode(tokenizer, [Example("How?", "So.")], 100)


def test_a_system_turn_goes_before_the_question_where_the_template_has_none() -> None:
    example = Example("How?", "So.", (), "Be brief.")
    own, moved = (prompt_ids(with_template(template), example) for template in (NEWLINES, NO_SYSTEM))
    assert TOKENIZER.decode(own).startswith("system\nBe brief.<|end|>\nuser\nHow?")
    assert TOKENIZER.decode(moved).startswith("user\nBe brief.\n\nHow?")


def test_a_template_that_asks_for_the_date_gives_the_same_tokens_every_day() -> None:
    dated = "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    tokenizer = with_template(dated + "Today: {{ date_string }}<|end|>" + NEWLINES)
    assert "Today: 26 Jul 2024" in tokenizer.decode(prompt_ids(tokenizer, Example("How?", "")))
