"""Schedules against a plain loop over every step, and the edges of a run."""

import json
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.interventions.schedule import At, AtStart, AtTask, AtUpdate, Every, Moment, Schedule, When

quick = settings(max_examples=150)


@st.composite
def runs(draw):
    """(total, start, strides): strides are what a vectorised environment advances at each check."""
    total = draw(st.integers(1, 120))
    start = draw(st.integers(0, total))
    strides = draw(st.lists(st.integers(1, 9), max_size=60))
    return total, start, strides


def checks(start, strides):
    """(previous, step) of every step moment, the one at the beginning first."""
    pairs = [(start - 1, start)]
    for stride in strides:
        pairs.append((pairs[-1][1], pairs[-1][1] + stride))
    return pairs


def firings(schedule: Schedule, run):
    total, start, strides = run
    state: dict[str, bool] = {}
    pairs = checks(start, strides)
    return [pair for pair in pairs if schedule.due(Moment(*pair, total=total, start=start), state)]


def reference(is_due, run):
    _, start, strides = run
    return [(a, b) for a, b in checks(start, strides) if any(is_due(t) for t in range(a + 1, b + 1))]


@pytest.mark.slow
@quick
@given(runs(), st.integers(0, 130))
def test_at_step_fires_in_the_check_that_passes_it(run, step):
    assert firings(At(step), run) == reference(lambda t: t == step, run)


@pytest.mark.slow
@quick
@given(runs(), st.floats(0, 1))
def test_at_fraction_fires_at_that_share_of_the_planned_total(run, fraction):
    assert firings(At(fraction), run) == reference(lambda t: t == round(fraction * run[0]), run)


@pytest.mark.slow
@quick
@given(runs(), st.integers(1, 40))
def test_every_fires_at_multiples_but_not_at_zero(run, period):
    assert firings(Every(period), run) == reference(lambda t: t > 0 and t % period == 0, run)


@pytest.mark.slow
@quick
@given(runs(), st.floats(0.001, 1))
def test_every_fraction_is_every_that_many_steps(run, fraction):
    assert firings(Every(fraction), run) == firings(Every(max(1, round(fraction * run[0]))), run)


@pytest.mark.parametrize(("schedule", "expected"), [(AtUpdate(50), [64]), (AtUpdate(50, recurs=True), [64, 128, 160])])
def test_updates_are_counted_whatever_the_steps_are(schedule, expected):
    counts = [(0, 32), (32, 64), (64, 96), (96, 96), (96, 128), (128, 160)]  # of rollouts, one of which learned nothing
    moments = [Moment(2_048 * i, 2_048 * (i + 1), total=9_999, updates=each) for i, each in enumerate(counts)]
    assert [moment.updates[1] for moment in moments if schedule.due(moment, {})] == expected
    fork = Moment(6_143, 6_144, total=9_999, start=6_144, updates=(95, 96))  # counted from step 0 of its trunk
    assert not schedule.due(fork, {})


@pytest.mark.slow
@quick
@given(runs(), st.integers(1, 40))
def test_updates_are_steps_where_nothing_else_is_said(run, number):
    assert firings(AtUpdate(number), run) == firings(At(number), run)
    assert firings(AtUpdate(number, recurs=True), run) == firings(Every(number), run)


@pytest.mark.slow
@quick
@given(runs())
def test_at_start_fires_once_before_the_first_step(run):
    _, start, _ = run
    assert firings(AtStart(), run) == [(start - 1, start)]


ALL = [
    At(5),
    At(0.5),
    Every(5),
    Every(0.5),
    AtUpdate(5),
    AtUpdate(5, recurs=True),
    AtTask(),
    AtTask(2),
    AtStart(),
    When("x", ">", 0.0),
]


@pytest.mark.parametrize("schedule", ALL, ids=str)
def test_switches_and_measurements_fire_only_their_own_schedules(schedule):
    # step 5 of 10 is where every step schedule above would fire, were this a step moment
    switch = Moment(5, 5, total=10, start=5, switch=2)
    measurement = Moment(5, 5, total=10, start=5, metrics={"x": 1.0})
    assert schedule.due(switch, {}) == isinstance(schedule, AtTask)
    assert schedule.due(measurement, {}) == isinstance(schedule, When)


@pytest.mark.parametrize("schedule", [AtTask(), When("x", ">", 0.0)], ids=str)
def test_steps_do_not_fire_task_or_metric_schedules(schedule):
    assert not schedule.due(Moment(4, 5, total=10), {})


@pytest.mark.parametrize(("schedule", "expected"), [(AtTask(3), [3]), (AtTask(), [1, 2, 3, 4, 5])])
def test_a_numbered_task_fires_at_that_switch_only(schedule, expected):
    assert [s for s in range(1, 6) if schedule.due(Moment(s, s, total=9, switch=s), {})] == expected


@pytest.mark.slow
@quick
@given(st.lists(st.sampled_from([0.1, 0.3, 0.5, None, float("nan")])), st.sampled_from([">", "<", ">=", "<="]))
def test_when_fires_on_the_rising_edge(values, op):
    compare = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}[op]
    state: dict[str, bool] = {}
    held = False
    for value in values:
        metrics = {"other": 1.0} if value is None else {"x": value, "other": 1.0}
        known = value is not None and value == value
        expected = known and compare(value, 0.3) and not held
        assert When("x", op, 0.3).due(Moment(7, 7, total=9, metrics=metrics), state) == expected
        held = compare(value, 0.3) if known else held
        state = json.loads(json.dumps(state))  # a checkpoint between any two measurements changes nothing


@given(
    st.lists(st.sampled_from([0.1, 0.3, 0.4, 0.5, 0.6, None])),
    st.sampled_from([None, 0.3, 0.2]),
    st.sampled_from([0, 15, 25, 0.3]),
)
def test_when_waits_until_it_was_cleared_and_for_the_smallest_distance(values, clear, least):
    schedule, state = When("x", ">", 0.35, clear, least), {}
    distance = 30 if least == 0.3 else least
    armed, fired = True, -1000
    for step, value in zip(range(0, 10 * len(values), 10), values, strict=True):
        armed |= value is not None and value <= (0.35 if clear is None else clear)
        expected = armed and value is not None and value > 0.35 and step - fired >= distance
        moment = Moment(step, step, total=100, metrics={} if value is None else {"x": value})
        assert schedule.due(moment, state) == expected
        if expected:
            armed, fired = False, step
        state = json.loads(json.dumps(state))


@pytest.mark.parametrize(
    ("schedule", "run", "problem"),
    [
        (At(501), {}, "never fires: the run has 500 steps"),
        (At(0.1), {"start": 100}, "never fires: the run starts at step 100"),
        (Every(400), {"start": 401}, "never fires: no multiple of 400 lies in steps 401 to 500"),
        (AtTask(), {}, None),
        (AtTask(), {"switches": 0}, "never fires: the run has 0 task switches"),
        (AtTask(3), {"switches": 1}, "never fires: the run has 1 task switch"),
        (AtTask(3), {"switches": 3}, None),
        (AtStart(), {"start": 500}, None),
        (When("x", ">", 0.0), {}, None),
    ],
)
def test_problem_says_why_a_schedule_never_fires(schedule, run, problem):
    assert schedule.problem(total=500, **run) == problem


@pytest.mark.slow
@quick
@given(runs(), st.one_of(st.builds(At, st.integers(0, 150) | st.floats(0, 1)), st.builds(Every, st.integers(1, 150))))
def test_problem_is_none_exactly_when_the_schedule_fires_in_the_run(run, schedule):
    total, start, _ = run
    whole = (total, start, [1] * (total - start))
    assert (schedule.problem(total, start) is None) == bool(firings(schedule, whole))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: At(-1), "a step is .*, got -1"),
        (lambda: At(float("nan")), "a fraction of the run .*, got nan"),
        (lambda: Every(0), "a period is at least 1 step, .*, got 0"),
        (lambda: Every(1000.0), "a fraction of the run in .*, got 1000.0"),
        (lambda: When("x", ">", float("inf")), "a threshold must be finite, got inf"),
    ],
)
def test_impossible_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
