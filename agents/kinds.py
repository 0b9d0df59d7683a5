"""The agents' entries in the registry of kinds."""

from supple.engine.kinds import Kind, add

from . import presets as presets  # registers its presets
from . import suites as suites
from .presets import MEASURES

ARMS = ("none", "fire", "snp", "reset")

add(
    *(
        Kind(
            name,
            about,
            settings=f"supple.agents.{name}.settings:{name.upper()}Settings",
            build=f"supple.agents.{name}.work:{name.upper()}Work",
            report="supple.agents.report:AGENTS",
            unit="environment steps",
            fork_at=0.5,
            arms=ARMS,
            measures=MEASURES,
            tuned_by="return",
        )
        for name, about in (
            ("ppo", "an agent for vectors or images, with any actions (PPO)"),
            ("dqn", "an agent for Atari games and other environments with discrete actions (DQN)"),
            ("sac", "an agent for continuous control such as HumanoidBench and MuJoCo (SAC)"),
        )
    )
)
