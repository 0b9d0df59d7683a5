"""The agents' rows in the registry of kinds of runs."""

from ..experiments.kinds import Kind, add
from . import presets as presets  # files its rows too
from . import suites as suites

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
            tuned_by="return",
            counted_seeds=True,
        )
        for name, about in (
            ("ppo", "an agent on streams of environments that show vectors (PPO)"),
            ("dqn", "an agent on Atari games, other images and vectors (DQN)"),
            ("sac", "an agent on bounded control: HumanoidBench, MuJoCo (SAC, SimBa networks)"),
        )
    )
)
