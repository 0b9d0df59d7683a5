import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.tracks.language.answers import answer_loss, answer_nll, choose, generate, task_score
from supple.tracks.language.chat import encode, prompt_ids
from supple.tracks.language.examples import Example, TaskData
from supple.tracks.language.models import LanguageModel, load_model
from supple.tracks.language.scores import longest_common_subsequence, sari, score

pytestmark = pytest.mark.slow

EXAMPLES = [
    Example("How?", "So."),
    Example("A longer question, why?", "B", ("A", "B")),
    Example("x", "yes", ("no", "yes")),
]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    torch.set_num_threads(1)
    model = load_model("llama:32x1", seed=1)
    with torch.no_grad():  # weights of 0.02 make all tokens equally likely
        for parameter in model.model.parameters():
            parameter.mul_(8.0)
    return model


def log_likelihoods(lm: LanguageModel, ids: list[int]) -> torch.Tensor:
    """Of each token after the first, given those before it."""
    logits = lm.model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    return logits.gather(1, torch.tensor(ids[1:])[:, None]).squeeze(1)


def test_losses_of_answers_are_those_of_each_example_by_itself_with_their_gradient(lm: LanguageModel) -> None:
    encoded = encode(lm.tokenizer, EXAMPLES, 100)
    alone = [-log_likelihoods(lm, example.ids)[example.prompt - 1 :].sum() for example in encoded]
    together = answer_nll(lm, encoded)
    assert together.tolist() == pytest.approx([each.item() for each in alone], rel=1e-4)
    weight = lm.model.get_parameter("model.layers.0.mlp.up_proj.weight")
    expected, found = (torch.autograd.grad(loss, weight)[0] for loss in (sum(alone), together.sum()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    mean = sum(alone).item() / sum(len(example.answer) for example in encoded)
    assert answer_loss(lm, encoded, batch_size=2) == pytest.approx(mean, rel=1e-4)


def test_greedy_generation_is_that_of_transformers_for_each_prompt_alone(lm: LanguageModel) -> None:
    prompts, expected = [Example(text, "") for text in ("Hi", "What is the longest of them?", "2 + 2 =")], []
    for prompt in prompts:
        ids = torch.tensor([prompt_ids(lm.tokenizer, prompt)])
        written = lm.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
        expected.append(lm.tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True).strip())
    assert generate(lm, prompts, 6, batch_size=2) == expected
    assert len(set(expected)) > 1


@torch.no_grad()
def test_the_likeliest_choice_is_chosen_of_letters_and_of_words(lm: LanguageModel) -> None:
    questions = [Example(f"question {i}", "A", tuple("ABCDEFGHI"[i : i + 3])) for i in range(6)]
    questions += [Example("question", "no", words) for words in (("no", "yes"), ("yes", "perhaps"), ("x", "no", "yes"))]
    expected = []
    for question in questions:
        encoded = [encode(lm.tokenizer, [Example(question.prompt, choice)], 100)[0] for choice in question.choices]
        sums = [float(log_likelihoods(lm, each.ids[:-1])[each.prompt - 1 :].sum()) for each in encoded]
        expected.append(question.choices[sums.index(max(sums))])
    assert choose(lm, questions, batch_size=3) == expected
    assert len(set(expected)) > 2


def test_a_task_is_scored_by_choices_and_by_generation(lm: LanguageModel) -> None:
    closed = Example("question 1", "", ("A", "B"))
    right = choose(lm, [closed])[0]
    written = generate(lm, [Example("Hi", "")], 3)[0]
    tests = (Example("question 1", right, ("A", "B")), Example("Hi", "no such answer"), Example("Hi", written or "-"))
    task = TaskData("t", (), tests)
    expected = (1 + (written != "")) / 3
    assert task_score(lm, task, max_new_tokens=3) == pytest.approx(expected)
    assert task_score(lm, task, max_new_tokens=3, examples=1) == 1.0


@pytest.mark.parametrize(
    ("given_", "expected", "right"),
    [
        (" Dovish. ", "dovish", True),
        ("He pays 3 x 5 = $1,015.00 in all.", "3 * 5\n#### 1015", True),
        ("16 - 3 = 13", "...\n#### 18", False),
        ("He is left with $20-$15", "#### 15", True),  # a minus between numbers is no sign
        ("So she has lost: -$5", "#### -5", True),
        ("They cost $.50 each", "#### 0.5", True),
        ("(3,4)", "#### 4", True),  # two numbers
        ("C. Because of that", "C\nBecause of this", True),
        ("A", "B\nfor", False),
    ],
)
def test_accuracy_compares_results_letters_or_whole_answers(given_: str, expected: str, right: bool) -> None:
    assert score("accuracy", given_, expected) == float(right)


def test_rouge_l_is_the_f1_of_the_longest_common_subsequence_of_words() -> None:
    # "police the gunman" of 4 and 5 words: precision 3/5, recall 3/4
    rouge = score("rouge_l", "police ended the gunman now", "Police killed the gunman")
    assert rouge == pytest.approx(2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4))
    assert score("rouge_l", "", "a") == 0.0


def test_similarity_counts_a_substitution_as_two_edits() -> None:
    assert score("similarity", "kitten", "sitting") == pytest.approx(2 * 4 / 13)  # "ittn"
    assert score("similarity", "same", "same") == 1.0


def test_sari_of_a_case_counted_by_hand() -> None:
    # words: kept a of {a, b} asked for {a}: given keeps a, deletes b and c; expected keeps a and b, deletes c; adds d
    # n = 1: keep P 1/1, R 1/2 → 2/3; delete P 1/2; add {x} of wanted {d} → 0
    # n = 2: keep: nothing given, "a b" wanted → P 1 (nothing to do), R 0 → 0; delete "a b", "b c", one of them rightly;
    #        add "a x" of wanted "b d" → 0
    # n = 3: keep: nothing, nothing → 1; delete "a b c" rightly → 1; added nothing, wanted "a b d": P 1, R 0 → 0
    # n = 4: nothing to do anywhere → 1, 1, 1
    expected = ((2 / 3 + 1 / 2 + 0) / 3 + (0 + 1 / 2 + 0) / 3 + (1 + 1 + 0) / 3 + 1) / 4
    assert sari("a b c", "a x", "a b d") == pytest.approx(expected)
    assert sari("a b c d e", "a b x", "a b x") == 1.0
    assert score("sari", "a x", "a b d", "a b c") == pytest.approx(expected)


@settings(max_examples=30)
@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_the_longest_common_subsequence_is_that_of_the_usual_table(first: str, second: str) -> None:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert longest_common_subsequence(first, second) == table[-1][-1]


def test_a_choice_longer_than_what_may_be_seen_still_has_a_token_before_it(lm: LanguageModel) -> None:
    question = Example("a long question", "b", ("a long choice", "b"))
    chosen = [choose(lm, [question], max_length=length) for length in (4, 14)]
    assert chosen[0] == chosen[1]
