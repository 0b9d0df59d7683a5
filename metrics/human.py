"""Human-normalised scores of Atari games: 0 is random play, 1 a professional human tester."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .arrays import as_array
from .scores import Score, aggregate

# Game → (random, human): mean scores with episodes of at most 108,000 frames that begin with up to 30 no-ops: the
# table of Wang et al. 2016 (dueling networks, appendix), used since in DQN Zoo, Agent57 and rliable. The human column
# of Mnih et al. 2015 is another one and gives other scores.
ATARI_SCORES = {
    "Alien": (227.8, 7127.7),
    "Amidar": (5.8, 1719.5),
    "Assault": (222.4, 742.0),
    "Asterix": (210.0, 8503.3),
    "Asteroids": (719.1, 47388.7),
    "Atlantis": (12850.0, 29028.1),
    "BankHeist": (14.2, 753.1),
    "BattleZone": (2360.0, 37187.5),
    "BeamRider": (363.9, 16926.5),
    "Berzerk": (123.7, 2630.4),
    "Bowling": (23.1, 160.7),
    "Boxing": (0.1, 12.1),
    "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0),
    "ChopperCommand": (811.0, 7387.8),
    "CrazyClimber": (10780.5, 35829.4),
    "Defender": (2874.5, 18688.9),
    "DemonAttack": (152.1, 1971.0),
    "DoubleDunk": (-18.6, -16.4),
    "Enduro": (0.0, 860.5),
    "FishingDerby": (-91.7, -38.7),
    "Freeway": (0.0, 29.6),
    "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5),
    "Gravitar": (173.0, 3351.4),
    "Hero": (1027.0, 30826.4),
    "IceHockey": (-11.2, 0.9),
    "Jamesbond": (29.0, 302.8),
    "Kangaroo": (52.0, 3035.0),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MontezumaRevenge": (0.0, 4753.3),
    "MsPacman": (307.3, 6951.6),
    "NameThisGame": (2292.3, 8049.0),
    "Phoenix": (761.4, 7242.6),
    "Pitfall": (-229.4, 6463.7),
    "Pong": (-20.7, 14.6),
    "PrivateEye": (24.9, 69571.3),
    "Qbert": (163.9, 13455.0),
    "Riverraid": (1338.5, 17118.0),
    "RoadRunner": (11.5, 7845.0),
    "Robotank": (2.2, 11.9),
    "Seaquest": (68.4, 42054.7),
    "Skiing": (-17098.1, -4336.9),
    "Solaris": (1236.3, 12326.7),
    "SpaceInvaders": (148.0, 1668.7),
    "StarGunner": (664.0, 10250.0),
    "Surround": (-10.0, 6.5),
    "Tennis": (-23.8, -8.3),
    "TimePilot": (3568.0, 5229.2),
    "Tutankham": (11.4, 167.6),
    "UpNDown": (533.4, 11693.2),
    "Venture": (0.0, 1187.5),
    "VideoPinball": (16256.9, 17667.9),
    "WizardOfWor": (563.5, 4756.5),
    "YarsRevenge": (3092.9, 54576.9),
    "Zaxxon": (32.5, 9173.3),
}


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_BY_KEY = {_key(game): scores for game, scores in ATARI_SCORES.items()}


def human_normalized(env: str, score: float) -> float | None:
    """Return (score − random) / (human − random): 0 is random play, 1 a human; below 0 and above 1 are possible.

    None for an environment that is not in the table (`ATARI_SCORES`: 57 games), including games of the same name in
    another namespace ("MinAtar/Breakout-v1").

    Args:
        env: An id or a game's name: "ALE/Asterix-v5", "Asterix", "beam_rider".
        score: An undiscounted, unclipped episode return, in game points.
    """
    known = _BY_KEY.get(_key(re.sub(r"-v\d+$", "", env.removeprefix("ALE/"))))
    if known is None:
        return None
    random, human = known
    return (score - random) / (human - random)


def human_normalized_score(returns: ArrayLike, environments: Sequence[str]) -> Score:
    """Return the IQM of human-normalised scores over runs and games, with its interval (Agarwal et al. 2021).

    Scores are not clipped. With one run there is nothing to resample, and low = high = iqm.

    Args:
        returns: (runs, environments), mean returns in game points; NaN where one is missing.
        environments: The name of each column.

    Returns:
        The score, with the 95 % interval of `bootstrap_interval`. NaN without a return.

    Raises:
        ValueError: A game is not in the table.
    """
    values = as_array(returns)
    if unknown := [env for env in environments if human_normalized(env, 0.0) is None]:
        raise ValueError(f"human_normalized_score: no random and human scores are known for {unknown[0]!r}")
    scores = np.array([[human_normalized(*cell) for cell in zip(environments, row, strict=True)] for row in values])
    return aggregate(scores)
