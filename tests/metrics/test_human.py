"""Human-normalised scores of Atari games."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.metrics import ATARI_SCORES, bootstrap_interval, human_normalized, human_normalized_score, iqm

PUBLISHED = {
    "Asterix": (210.0, 8503.3),
    "BeamRider": (363.9, 16926.5),
    "DemonAttack": (152.1, 1971.0),
    "Pong": (-20.7, 14.6),
    "Breakout": (1.7, 30.5),
}


@pytest.mark.parametrize(("game", "scores"), PUBLISHED.items())
def test_random_play_scores_0_and_a_human_1(game: str, scores: tuple[float, float]) -> None:
    assert human_normalized(game, scores[0]) == 0.0
    assert human_normalized(game, scores[1]) == 1.0


def test_table_has_57_games_in_each_of_which_a_human_beats_random_play() -> None:
    assert len(ATARI_SCORES) == 57
    assert all(random < human for random, human in ATARI_SCORES.values())


def test_every_game_of_the_table_is_one_of_ale() -> None:
    ale_py = pytest.importorskip("ale_py")
    gymnasium = pytest.importorskip("gymnasium")
    gymnasium.register_envs(ale_py)
    for game in ATARI_SCORES:
        assert f"ALE/{game}-v5" in gymnasium.registry


@pytest.mark.parametrize("name", ["ALE/BeamRider-v5", "BeamRider-v4", "beam_rider"])
def test_a_game_is_known_by_its_id_and_by_its_name(name: str) -> None:
    assert human_normalized(name, 1000.0) == pytest.approx((1000.0 - 363.9) / (16926.5 - 363.9))


@pytest.mark.parametrize("name", ["Hopper-v5", "ALE/Tetris-v5", "MinAtar/Breakout-v1"])
def test_other_environments_have_no_score(name: str) -> None:
    assert human_normalized(name, 1.0) is None


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(sorted(ATARI_SCORES)), st.floats(-1e5, 1e5), st.floats(-1e5, 1e5))
def test_score_rises_linearly_with_the_return(game: str, a: float, b: float) -> None:
    low, middle, high = (human_normalized(game, value) for value in (a, (a + b) / 2, b))
    assert low is not None
    assert high is not None
    assert middle == pytest.approx((low + high) / 2, rel=1e-6, abs=1e-6)
    assert (low <= high) == (a <= b) or low == high


def test_aggregate_is_the_iqm_of_normalized_returns_with_a_stratified_bootstrap() -> None:
    games = ["ALE/Asterix-v5", "ALE/Pong-v5"]
    returns = np.random.default_rng(0).uniform(0.0, 10.0, size=(5, 2))
    expected = np.stack([(returns[:, 0] - 210.0) / 8293.3, (returns[:, 1] + 20.7) / 35.3], axis=1)
    score = human_normalized_score(returns, games)
    np.testing.assert_allclose(score.normalized, expected)
    assert score.iqm == pytest.approx(iqm(expected))
    assert (score.low, score.high) == pytest.approx(bootstrap_interval(expected))
    assert score.low < score.iqm < score.high


def test_aggregate_is_not_clipped_and_has_no_interval_with_one_run() -> None:
    score = human_normalized_score([[305.0]], ["Breakout"])
    assert score.iqm == score.low == score.high == pytest.approx((305.0 - 1.7) / 28.8)


def test_a_game_without_scores_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'Hopper-v5'"):
        human_normalized_score([[1.0]], ["Hopper-v5"])
