"""Updates of FlashSAC and SimBaV2 by their authors' own code, at the sizes of our presets on HalfCheetah, in float32.

The code is that of checkouts, whose folders FLASHSAC and SIMBAV2 name (Holiday-Robot/FlashSAC 87edc90,
DAVIAN-Robotics/SimbaV2 86899c2). SimBaV2's needs an interpreter with an older JAX, SIMBAV2_PYTHON: see
`simba_v2_authors.py`.

Floors of an update, of which the actor's part is due at every `policy_delay`th:

    simba-v2     28.1 GFLOP of products (actor 9.5, critics 18.6), 367 MB moved by Adam and the target, batch 256
    flash-sac    21.0 GFLOP (actor 6.0 at every second, critics 17.9), 91 MB, batch 512
"""

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import subjects
import torch

UPDATES = 6  # of a turn: FlashSAC's actor takes a step at every second
Side = tuple[Callable[[], object], int]


def ours(threads: int, preset: str) -> Side:
    """Take compiled updates of a preset, without data that is drawn or kept."""
    agent = subjects.sac_update(preset, compile="on", replay_size=10_000)
    batch, noise = subjects.transitions(agent)
    return lambda: [agent.soft_update(batch, noise, number=number) for number in range(UPDATES)], UPDATES


def floor(threads: int, preset: str) -> Side:
    """Multiply the matrices, move Adam's vectors and those of the target."""
    import floors

    agent = subjects.sac_update(preset, compile="off", replay_size=10_000)
    actor, critic = map(floors.multiply, floors.products_of_sac(agent))
    sizes = {name: sum(p.numel() for p in learner.module.parameters()) for name, learner in agent.learners.items()}
    always = critic, floors.step_adam(sizes["critic"]), floors.follow(sizes["critic"])
    delayed = actor, floors.step_adam(sizes["actor"])

    def turn() -> None:
        for number in range(UPDATES):
            for call in (*always, *delayed * (number % agent.settings.policy_delay == 0)):
                call()

    return turn, UPDATES


def flash_sac(threads: int, mode: str) -> Side:
    """Take their updates, with torch.compile in a mode; their own is max-autotune, and float16 on a GPU alone."""
    sys.path.insert(0, os.environ["FLASHSAC"])
    # a type, and what reads their files of settings
    sys.modules.update({name: MagicMock() for name in ("jax", "jax.numpy", "omegaconf")})
    from flash_rl.agents.flashSAC import agent as theirs

    agent = subjects.sac_update("flash-sac", compile="off", replay_size=10_000)
    s, (low, high) = agent.settings, (-5.0, 5.0)
    config = types.SimpleNamespace(
        learning_rate_init=s.learning_rate, learning_rate_peak=s.learning_rate, learning_rate_end=s.learning_rate / 2,
        learning_rate_warmup_step=0, learning_rate_decay_step=1_000_000, actor_num_blocks=s.actor_blocks,
        actor_hidden_dim=s.actor_width, actor_bc_alpha=0.0, critic_num_blocks=s.critic_blocks,
        critic_hidden_dim=s.critic_width, critic_num_bins=s.atoms, critic_min_v=low, critic_max_v=high,
        critic_target_update_tau=s.tau, temp_initial_value=s.temperature,
        temp_target_entropy=s.target_entropy * agent.size, gamma=s.gamma, n_step=1, use_compile=mode != "eager",
        compile_mode=mode, use_amp=False,
    )  # fmt: skip
    cpu, size = torch.device("cpu"), agent.control.observation
    networks = theirs._init_flashsac_networks(size, size, agent.size, config, cpu)
    (states, actions, rewards, discounts, next_states), _ = subjects.transitions(agent)
    batch = {
        "observation": states, "actor_observation": states, "action": actions, "reward": rewards,
        "next_observation": next_states, "actor_next_observation": next_states, "terminated": (discounts == 0).float(),
    }  # fmt: skip

    def turn() -> None:
        for number in range(UPDATES):
            theirs._update_networks(batch, *networks, config, number % s.policy_delay == 0, cpu, None)

    return turn, UPDATES


def simba_v2(threads: int) -> Side:
    """Take their updates, in a process of another interpreter: a line to it is one turn, and so is its answer."""
    agent = subjects.sac_update("simba-v2", compile="off", replay_size=10_000)
    s, sizes = agent.settings, (agent.control.observation, agent.size)
    words = (*sizes, s.batch_size, s.actor_width, s.actor_blocks, s.critic_width, s.critic_blocks, s.atoms, UPDATES)
    script = Path(__file__).with_name("simba_v2_authors.py")
    process: Any = subprocess.Popen(
        [os.environ["SIMBAV2_PYTHON"], script, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": os.environ["SIMBAV2"]},
    )  # fmt: skip

    def turn() -> None:
        print("go", file=process.stdin, flush=True)
        if not process.stdout.readline():
            raise SystemExit("the process of SimBaV2's code has ended")

    return turn, UPDATES
