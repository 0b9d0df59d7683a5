"""Updates of SimBaV2 by its authors' code, in a process of its own, which `sides_authors.simba_v2` starts.

    PYTHONPATH=SIMBAV2 python simba_v2_authors.py OBSERVATION ACTION BATCH WIDTH BLOCKS WIDTH BLOCKS ATOMS UPDATES

SIMBAV2 is a checkout. It needs jax 0.4.35, flax 0.10.0, optax 0.2.3, tensorflow-probability 0.24.0 and gymnasium.
Widths and blocks are those of the actor and of the critics. It takes UPDATES updates for each line that it reads, and
answers when they are done. Its code stays as it is; `jax.tree_map`, which later versions of jax lack, is its new name.
"""

import math
import os
import sys
from unittest.mock import MagicMock

import jax
import numpy as np

jax.tree_map = jax.tree.map
sys.modules["omegaconf"] = MagicMock()  # reads their files of settings

from scale_rl.agents.simbaV2 import simbaV2_agent as theirs  # noqa: E402


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    d, a, n, actor_width, actor_blocks, critic_width, critic_blocks, atoms, updates = map(int, sys.argv[1:])
    config = theirs.SimbaV2Config(
        seed=0, normalize_observation=False, normalize_reward=False, normalized_g_max=5.0, load_only_param=True,
        load_param_key=False, load_observation_normalizer=False, load_reward_normalizer=False,
        learning_rate_init=1e-4, learning_rate_end=5e-5, learning_rate_decay_rate=1.0,
        learning_rate_decay_step=1_000_000, actor_num_blocks=actor_blocks, actor_hidden_dim=actor_width,
        actor_c_shift=3.0, actor_scaler_init=math.sqrt(2 / actor_width), actor_scaler_scale=math.sqrt(2 / actor_width),
        actor_alpha_init=1 / (actor_blocks + 1), actor_alpha_scale=1 / math.sqrt(actor_width), actor_bc_alpha=0.0,
        critic_use_cdq=True, critic_num_blocks=critic_blocks, critic_hidden_dim=critic_width, critic_c_shift=3.0,
        critic_num_bins=atoms, critic_min_v=-5.0, critic_max_v=5.0, critic_scaler_init=math.sqrt(2 / critic_width),
        critic_scaler_scale=math.sqrt(2 / critic_width), critic_alpha_init=1 / (critic_blocks + 1),
        critic_alpha_scale=1 / math.sqrt(critic_width), target_tau=0.005, temp_initial_value=0.01,
        temp_target_entropy=-0.5 * a, temp_target_entropy_coef=-0.5, gamma=0.995, n_step=1,
    )  # fmt: skip
    state = theirs._init_simbav2_networks(d, a, config)
    draws = np.random.default_rng(0)
    batch = {
        "observation": draws.standard_normal((n, d)), "next_observation": draws.standard_normal((n, d)),
        "action": draws.uniform(-1, 1, (n, a)), "reward": draws.uniform(size=n),
        "terminated": draws.uniform(size=n) < 0.02,
    }  # fmt: skip
    batch = {name: jax.numpy.asarray(value, "float32") for name, value in batch.items()}
    for _ in sys.stdin:
        for _ in range(updates):
            *state, _ = theirs._update_simbav2_networks(
                *state, batch, config.gamma, 1, 0.0, True, -5.0, 5.0, atoms, config.target_tau, -0.5 * a
            )
        jax.block_until_ready(state)
        print("done", file=answers)


main()
