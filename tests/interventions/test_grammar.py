"""The grammar of hooks: what is written is read, what is read is written back, errors point at themselves."""

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supple.interventions.grammar import HookText, parse_hook_text
from supple.interventions.schedule import At, AtStart, AtTask, AtUpdate, Every, When
from supple.registry import Call, CallSyntaxError, parse_call

quick = settings(max_examples=150)

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./+-]{0,8}", fullmatch=True)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    identifiers,
    st.text(max_size=8),
)
values = st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
calls = st.builds(Call, names.filter(lambda w: w != "none"), st.dictionaries(identifiers, values, max_size=3).map(dict))
fractions = st.floats(0, 1)
schedules = st.one_of(
    st.builds(At, st.integers(0, 2**62)),
    st.builds(At, fractions),
    st.builds(Every, st.integers(1, 2**62)),
    st.builds(Every, fractions.filter(bool)),
    st.builds(AtTask, st.none() | st.integers(1, 99)),
    st.builds(AtUpdate, st.integers(1, 2**62), st.booleans()),
    st.just(AtStart()),
    st.builds(
        When, identifiers, st.sampled_from([">", "<", ">=", "<="]), st.floats(allow_nan=False, allow_infinity=False)
    ),
)
hooks = st.just(HookText()) | st.builds(HookText, calls, st.none() | schedules, st.none() | names)


@pytest.mark.parametrize(
    ("text", "name", "params", "schedule"),
    [  # the first eight are design.md's own examples
        ("fire@0.5", "fire", {}, At(0.5)),
        ("fire(steps=10,scope=conv)@250000", "fire", {"steps": 10, "scope": "conv"}, At(250_000)),
        ("redo(tau=0.1)@every:1000", "redo", {"tau": 0.1}, Every(1000)),
        ("snp@task", "snp", {}, AtTask()),
        ("reset(what=head)@task:3", "reset", {"what": "head"}, AtTask(3)),
        ("fire@when:dormant_fraction>0.3", "fire", {}, When("dormant_fraction", ">", 0.3)),
        ("l2_init(strength=1e-3)", "l2_init", {"strength": 1e-3}, None),
        ("fire@start", "fire", {}, AtStart()),
        ("fire@250_000", "fire", {}, At(250_000)),
        ("fire@1e6", "fire", {}, At(1_000_000)),
        ("fire@2.5e6", "fire", {}, At(2_500_000)),
        ("fire@1.0", "fire", {}, At(1.0)),
        ("fire@1", "fire", {}, At(1)),
        ("fire@every:0.1", "fire", {}, Every(0.1)),
        ("fire@updates:1e3", "fire", {}, AtUpdate(1000, recurs=True)),
        ("fire@update:1_000", "fire", {}, AtUpdate(1000)),
        ("fire@when:actor/srank<=-.5", "fire", {}, When("actor/srank", "<=", -0.5)),
        ("fire@when:srank<20,least=50_000,clear=3e1", "fire", {}, When("srank", "<", 20.0, 30.0, 50_000)),
        ("fire@when:x>=-1 , least = 0.1", "fire", {}, When("x", ">=", -1.0, None, 0.1)),
        ("  fire ( steps = 5 )\n@ every : 2 ", "fire", {"steps": 5}, Every(2)),
        ("reset()@task", "reset", {}, AtTask()),
    ],
)
def test_hook_texts_read_as_documented(text, name, params, schedule):
    assert parse_hook_text(text) == HookText(Call(name, params), schedule)


@pytest.mark.parametrize(
    ("text", "hook"),
    [
        ("critic/fire@0.5", HookText(Call("fire"), At(0.5), "critic")),
        ("critic/l2_init(strength=1e-3)", HookText(Call("l2_init", {"strength": 1e-3}), None, "critic")),
        ("a/fire@when:b/srank<20", HookText(Call("fire"), When("b/srank", "<", 20.0), "a")),
        (" a/fire ( layer = x/y ) @ start ", HookText(Call("fire", {"layer": "x/y"}), AtStart(), "a")),
        ("none/fire@task", HookText(Call("fire"), AtTask(), "none")),
        (" none ", HookText(None, None)),
    ],
)
def test_a_hook_may_name_its_learner(text, hook):
    assert parse_hook_text(text) == hook


def test_the_name_after_a_learner_has_its_position_in_errors():
    assert parse_hook_text(" critic/fire@0.5").call.position == 8


@pytest.mark.slow
@quick
@given(hooks)
def test_the_text_of_a_hook_parses_to_the_same_hook(hook):
    again = parse_hook_text(str(hook))
    assert again == hook
    assert str(again) == str(hook)  # True == 1 == 1.0: equality alone would miss a changed type


grammar_soup = st.lists(
    st.sampled_from([*"(),=@:[]<>'\"\\/-_. \n", "fire", "every", "when", "task", "none", "0.5", "1e6", "3", "٣", "§"])
).map("".join)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.text(string.printable) | st.text() | grammar_soup)
@example("fire(x=" + "9" * 5000 + ")")
@example("fire@when:x>" + "9" * 400)
@example("fire@1e999")
@example("1E100")
@example("fire(x=" + "[" * 5000)
def test_any_text_parses_or_is_a_syntax_error_within_the_text(text):
    for parse in (parse_hook_text, parse_call):
        error = syntax_error(parse, text)
        if error is None:
            assert parse(str(parse(text))) == parse(text)
        else:
            assert error.text == text
            assert 0 <= error.position <= len(text)
            assert "\n" not in str(error)


def syntax_error(parse, text):
    try:
        parse(text)
    except CallSyntaxError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected a name"),
        ("fire(steps=10,@task", 14, "expected a parameter name"),
        ("fire(steps=)", 11, "expected a value"),
        ("fire(steps=1", 12, "expected ',' or ')'"),
        ("fire(steps=1,steps=2)", 13, "'steps' given twice"),
        ("fire(steps=1x)", 11, "unexpected '1x'"),
        ("fire(steps='x)", 11, 'unexpected "\'"'),
        ("fire(steps=[a", 13, "expected ',' or ']'"),
        ("fire)", 4, "expected the end"),
        ("fire@", 5, "expected a step"),
        ("fire@evry:1000", 5, "did you mean 'every'?"),
        ("fire@-5", 5, "got -5"),
        ("fire@1.5", 5, "[0, 1], got 1.5"),
        ("fire@1e-3", 5, "whole number"),
        ("fire@0.5 0.6", 9, "expected the end"),
        ("fire@every:0", 11, "at least 1 step"),
        ("fire@every", 10, "expected ':'"),
        ("fire@updates:0.5", 13, "1 or more, got 0.5"),
        ("fire@task:0", 10, "number of a task switch must"),
        ("fire@when:>3", 10, "name of a metric"),
        ("fire@when:x=3", 11, "one of > < >= <="),
        ("fire@when:x>", 12, "a threshold"),
        ("fire@when:x>3,", 14, "clear or least"),
        ("fire@when:x>3,clar=2", 14, "did you mean 'clear'"),
        ("fire@when:x>3,least=2,least=3", 22, "given twice"),
        ("fire@when:x>3,clear=4", 10, "below the threshold"),
        ("fire@when:x<3,clear=2", 10, "above the threshold"),
        ("fire@when:x>3,least=1.5", 10, "a fraction of the run, got 1.5"),
        ("none@0.5", 4, "expected the end"),
        ("none(a=1)", 0, "takes no parameters"),
        ("critic/none", 0, "and no learner"),
        ("critic/@0.5", 7, "expected an intervention"),
        ("critic//fire@0.5", 7, "no name after 'critic/'"),
        ("critic / fire@0.5", 7, "unexpected '/'"),
    ],
)
def test_errors_point_at_the_offending_character(text, position, message):
    with pytest.raises(CallSyntaxError) as caught:
        parse_hook_text(text)
    assert caught.value.position == position
    assert f"at character {position + 1} of {text!r}" in str(caught.value)
    assert message in str(caught.value)


def test_a_hook_that_never_fires_says_why():
    assert parse_hook_text("q/fire@900").problem(total=500) == "q/fire@900 never fires: the run has 500 steps"
    assert parse_hook_text("fire@500").problem(total=500) is None
    assert parse_hook_text("l2_init").problem(total=500) is None
