"""The call syntax: what is written is read, what is read is written back, errors point at themselves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.registry import Call, CallSyntaxError, format_value, parse_call

words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./+-]{0,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
values = scalars | words | st.text(max_size=8)
calls = st.builds(Call, words, st.dictionaries(words, values | st.lists(values, max_size=3).map(tuple), max_size=3))


@pytest.mark.slow
@settings(max_examples=150)
@given(calls)
def test_what_is_written_reads_back_the_same(call: Call) -> None:
    again = parse_call(str(call))
    assert again == call
    assert str(again) == str(call)  # True == 1 == 1.0: equality alone would miss a changed type


def test_a_schedule_is_no_part_of_a_call() -> None:
    with pytest.raises(CallSyntaxError, match="expected the end") as caught:
        parse_call("fire(steps=1)@task")
    assert caught.value.position == 13


def test_values_have_the_documented_types():
    params = parse_call(
        """f(a=1_000,b=1e3,c=true,d=None,e=as_released,g=[conv,2],h='x, "y"',i=[],j=head+encoder)"""
    ).params
    expected = [1000, 1000.0, True, None, "as_released", ("conv", 2), 'x, "y"', (), "head+encoder"]
    assert list(params.values()) == expected
    assert [type(v) for v in params.values()] == [type(v) for v in expected]


def test_what_the_grammar_cannot_write_is_refused():
    with pytest.raises(ValueError, match="inf has no text form"):
        format_value(float("inf"))
