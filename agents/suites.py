"""Presets of changing environments for `supple compare`, named after the experiments that they reproduce.

Results of small runs and their limits are in docs/results/worlds.md. Times are for all arms and seeds on two idle
cores. Extrapolated times were measured on the first steps and multiplied.
"""

from dataclasses import replace
from typing import Any

from supple.engine.kinds import Preset, add

from .presets import AS_PUBLISHED, FINAL, LATER, MEAN, SAC_MLP, small

# "It's Time to Move On: Primacy Bias and Why It Helps to Forget" (ICLR 2024 blog posts) and its notebook: the map SH/FG
# in episodes 0 to 199 of 1000, then SF/HG; 4 → 256 → 64 → 4 with a softmax at the end, Adam 0.01, batch 16, replay
# ratio 16, γ 1, greedy, the target copied after every step, a memory of 2000, learning from the 17th episode, 25 seeds,
# the network reset every 100 episodes. A task here has 400 steps, or 200 episodes that reach the goal.
FROZEN_LAKE = {
    **AS_PUBLISHED,
    "env": "FrozenLake2x2-v0",
    "cycles": 5,
    "steps_per_task": 400,
    "shift": "mirror_map(stay=true)",
    "num_envs": 1,
    "replay_ratio": 16.0,
    "batch_size": 16,
    "replay_size": 2_000,
    "learning_starts": 32,
    "target_period": 1,
    "learning_rate": 0.01,
    "adam_epsilon": 1e-8,
    "loss": "mse",
    "gamma": 1.0,
    "exploration_start": 0.0,
    "exploration": 0.0,
    "hidden": (256, 64),
    "initialization": "pytorch",
    "softmax_values": True,
    "eval_episodes": 0,
    "measure_every": 400,
}
# Chung et al. 2024 (Parseval regularisation), section on gridworlds, and the released code: 20 goals of 40,000 steps,
# PPO with 2 × 64 tanh for each of policy and value, Adam 2.5e-4, rollouts of 128, 4 epochs of 4 minibatches, entropy
# 0.01, 20 runs.
NINE_ROOMS = {
    **AS_PUBLISHED,
    "env": "NineRooms-v0",
    "cycles": 20,
    "steps_per_task": 40_000,
    "shift": "goal(from_task=0)",
    "num_envs": 1,
    "rollout_steps": 128,
    "epochs": 4,
    "minibatch_size": 32,
    "learning_rate": 2.5e-4,
    "clip_value": True,
    "entropy_coefficient": 0.01,
    "hidden": (64, 64),
    "share_value": False,
    "adapter": 0,
    "activation": "tanh",
    "normalize_observations": False,
    "normalize_rewards": False,
    "eval_episodes": 0,
}
# Nikishin et al. 2022 (arXiv 2205.07802), heavy priming: SAC on quadruped-run, 100,000 gradient steps on the first 100
# transitions, then ordinary training. Here on HalfCheetah. Check q/mean, which may diverge (Hussing et al. 2024, arXiv
# 2403.05996). The policy's deviation is squashed, as it was when docs/results/worlds.md was measured.
PRIMING = {
    **SAC_MLP,
    **AS_PUBLISHED,
    "log_std": "squashed",
    "env": "HalfCheetah-v5",
    "steps": 500_000,
    "measure_every": 10_000,
}
# Dohare et al. 2024 (arXiv 2306.13812) and its released settings for SlipperyAnt: 25 frictions of 2M steps, PPO with
# 2 × 256 ReLU for each of policy and value, Adam 1e-4, 2048 steps, 10 epochs of minibatches of 128, no normalisation of
# observations or rewards, no gradient clipping. Collapse after ten to twenty million steps.
SLIPPERY_ANT = {
    **AS_PUBLISHED,
    "env": "Ant-v5",
    "cycles": 25,
    "steps_per_task": 2_000_000,
    "shift": "friction(low=0.02,high=2,from_task=0)",
    "num_envs": 1,
    "rollout_steps": 2_048,
    "epochs": 10,
    "minibatch_size": 128,
    "learning_rate": 1e-4,
    "adam_epsilon": 1e-8,
    "clip_value": False,
    "max_grad_norm": 0.0,
    "hidden": (256, 256),
    "share_value": False,
    "adapter": 0,
    "activation": "relu",
    "normalize_observations": False,
    "normalize_rewards": False,
    "eval_episodes": 0,
}
# Not from a paper: forwards and backwards in turn, with the agent of Slippery Ant and CleanRL's learning rate.
CHEETAH_DIRECTION = {
    **SLIPPERY_ANT,
    "env": "HalfCheetah-v5",
    "cycles": 10,
    "steps_per_task": 500_000,
    "shift": "direction",
    "learning_rate": 3e-4,
}
# Young & Tian 2019 (arXiv 1903.03176) and the code of MinAtar (examples/dqn.py): 5M frames with an update at each one,
# 16 filters and 128 units, centred RMSprop.
MINATAR = {
    "env": "MinAtar/Breakout-v0",
    "steps": 5_000_000,
    "num_envs": 1,
    "encoder": "minatar",
    "initialization": "pytorch",
    "optimizer": "rmsprop",
    "learning_rate": 2.5e-4,
    "rmsprop_decay": 0.95,
    "rmsprop_momentum": 0.95,
    "rmsprop_epsilon": 0.01,
    "replay_size": 100_000,
    "learning_starts": 5_000,
    "target_period": 1_000,
    "exploration": 0.1,
    "exploration_steps": 100_000,
    "clip_rewards": False,
    "measure_every": 50_000,
}
# Tang et al. 2025 (arXiv 2506.00592) and the code of C-CHAIN (crl_minatar): three games of 2M frames in turn, Double
# DQN with one memory, whose size and ε are the defaults of its class: the configured ones are not passed on. It takes
# 10,000 random steps in every game, here in the first one only, and cuts an episode of Seaquest after 1,000 steps
# without reward, here after 5,000 steps. Its evaluations are greedy.
CONTINUAL_MINATAR = {
    "sequence": "continual-minatar",
    "steps_per_task": 2_000_000,
    "num_envs": 1,
    "encoder": "minatar",
    "initialization": "pytorch",
    "learning_rate": 3e-4,
    "adam_epsilon": 1e-8,
    "loss": "mse",
    "double_q": True,
    "replay_size": 100_000,
    "learning_starts": 10_000,
    "target_period": 1_000,
    "exploration": 0.1,
    "exploration_steps": 100_000,
    "clip_rewards": False,
    "eval_epsilon": 0.0,
    "eval_every": 50_000,
    "eval_episodes": 10,
    "measure_every": 50_000,
}
# REMARL2 (github.com/Angelawork/REMARL2_Rehearsal-CRL-with-Marginal-L2, 99a1b9c: minatar_job.sh, PPO_Experiment.py):
# five games of 10M frames in turn, CleanRL's PPO, its learning rate annealed in each game. There the network is a 2 × 2
# convolution with 32 channels that takes the image's rows for channels, average pooling and layers of 64, two of them
# for each of policy and value. Here the convolution is Young & Tian's, and all three layers are shared.
MINATAR_PPO = {
    **AS_PUBLISHED,
    "sequence": "minatar-five",
    "steps_per_task": 9_994_240,  # 610 rollouts, as there
    "heads": "one",
    "num_envs": 128,
    "rollout_steps": 128,
    "epochs": 4,
    "minibatch_size": 4_096,
    "learning_rate": 2.5e-4,
    "schedule": "linear",
    "clip_range": 0.1,
    "clip_value": True,
    "value_coefficient": 0.25,
    "entropy_coefficient": 0.01,
    "encoder": "minatar",
    "hidden": (64, 64, 64),
    "normalize_rewards": False,
    "eval_episodes": 0,
    "measure_every": 499_712,
}
THREE = (0, 1, 2)
# PPO has no replay memory, so resetting it at every switch would be the same as the fresh agent.
STREAM: dict[str, Any] = {
    "arms": ("none", "fire@task", "snp@task"), "fork_at": 0.0, "reference": "fresh", "seeds": THREE, "leads": LATER,
}  # fmt: skip
PENDULUM = {
    "env": "Pendulum-v1", "hidden": (64, 64), "batch_size": 64, "learning_rate": 1e-3, "measure_every": 500,
}  # fmt: skip

nine_rooms = Preset(
    "nine-rooms",
    "paper size: PPO on a gridworld, 20 hidden goals, 40,000 steps each; 20 minutes on two cores (extrapolated)",
    "ppo",
    NINE_ROOMS,
    **STREAM,
)
priming = Preset(
    "priming",
    "paper size on another task: SAC on HalfCheetah, 500k steps, with and without 100,000 gradient steps on the "
    "first 100 transitions; 12 hours on two cores (extrapolated)",
    "sac",
    PRIMING,
    vary={"priming_updates": (0, 100_000)},
    arms=("none", "reset@every:100_000"),
    fork_at=0.0,
    seeds=THREE,
    leads=FINAL,
)
# The same paper's other figure: SAC with 1 and with 32 gradient steps per environment step, reset every 2.56M gradient
# steps, which are 80,000 environment steps at 32. The period in environment steps is the same at 1.
replay_ratio = replace(
    priming,
    name="replay-ratio",
    about="paper size on another task: SAC on HalfCheetah, 400k steps with 1 and with 32 gradient steps each; 6 days "
    "on two cores (extrapolated)",
    settings={**PRIMING, "steps": 400_000},
    vary={"replay_ratio": (1.0, 32.0)},
    arms=("none", "reset@every:80_000"),
)
slippery_ant = Preset(
    "slippery-ant",
    "paper size: PPO on Ant, 25 frictions, 2M steps each; 2 days on two cores (extrapolated)",
    "ppo",
    SLIPPERY_ANT,
    **STREAM,
)
cheetah_direction = Preset(
    "cheetah-direction",
    "PPO on HalfCheetah, forwards and backwards in turn, 10 tasks of 500k steps; 5 hours on two cores (extrapolated)",
    "ppo",
    CHEETAH_DIRECTION,
    **STREAM,
)
minatar = Preset(
    "minatar",
    "paper size: DQN on MinAtar's Breakout (--env minatar:asterix, …), 5M steps; 5 hours on two cores (extrapolated)",
    "dqn",
    MINATAR,
    arms=("none",),
    fork_at=0.0,
    seeds=THREE,
    leads=FINAL,
)
minatar_ppo = Preset(
    "minatar-ppo",
    "paper size: PPO on five games of MinAtar in turn, 10M steps each; 16 hours on two cores (extrapolated)",
    "ppo",
    MINATAR_PPO,
    **STREAM | {"arms": ("none", "reset@task", "fire@task", "l2_init", "parseval"), "leads": MEAN},
)
continual_minatar = Preset(
    "continual-minatar",
    "paper size: DQN on MinAtar's SpaceInvaders, Asterix and Seaquest in turn, 2M steps each; 38 hours on two "
    "cores (extrapolated)",
    "dqn",
    CONTINUAL_MINATAR,
    arms=("none", "chain(strength=50,share=0.01,window=10000)", "fire@task", "reset@task", "replay(keep=0)@task"),
    fork_at=0.0,
    reference="fresh",
    seeds=THREE,
    leads=MEAN,
)

add(
    Preset(
        "frozen-lake",
        "paper size: DQN on a 2 × 2 FrozenLake that is mirrored after a fifth of 2,000 steps; 3 minutes on two cores",
        "dqn",
        FROZEN_LAKE,
        arms=("none", "reset(toward=fresh)@every:200", "fire@task:1"),
        fork_at=0.0,
        reference="fresh",
        seeds=THREE,
        leads=LATER,
    ),
    nine_rooms,
    small(
        nine_rooms,
        "five goals, 25,600 steps each; 3 minutes on two cores",
        {"cycles": 5, "steps_per_task": 25_600},
    ),
    priming,
    small(
        priming,
        "Pendulum, 6,000 steps, with and without 10,000 gradient steps on the first 100 transitions; 4 minutes on two "
        "cores",
        {**PENDULUM, "steps": 6_000},
        vary={"priming_updates": (0, 10_000)},
        arms=("none", "reset@every:2_000"),
    ),
    replay_ratio,
    small(
        replay_ratio,
        "Pendulum, 2,000 steps with 1 and with 16 gradient steps each; 5 minutes on two cores",
        {**PENDULUM, "steps": 2_000},
        vary={"replay_ratio": (1.0, 16.0)},
        arms=("none", "reset@every:500"),
    ),
    slippery_ant,
    small(
        slippery_ant,
        "three frictions, 6,144 steps each, far too few for a loss of plasticity; 2 minutes on two cores",
        {"cycles": 3, "steps_per_task": 6_144},
    ),
    cheetah_direction,
    small(
        cheetah_direction,
        "three tasks of 8,192 steps; 2 minutes on two cores",
        {"cycles": 3, "steps_per_task": 8_192},
    ),
    minatar,
    small(
        minatar,
        "60,000 steps; 4 minutes on two cores (extrapolated)",
        {
            "steps": 60_000,
            "replay_size": 30_000,
            "learning_starts": 1_000,
            "exploration_steps": 10_000,
            "eval_every": 20_000,
            "measure_every": 20_000,
        },
    ),
    minatar_ppo,
    small(
        minatar_ppo,
        "32,768 steps in each game, far too few to learn; 3 minutes on two cores (extrapolated)",
        {"steps_per_task": 32_768, "measure_every": 16_384},
    ),
    continual_minatar,
    small(
        continual_minatar,
        "20,000 steps in each game; 23 minutes on two cores (extrapolated)",
        {
            "steps_per_task": 20_000,
            "replay_size": 20_000,
            "learning_starts": 1_000,
            "exploration_steps": 5_000,
            "eval_every": 10_000,
            "eval_episodes": 5,
            "measure_every": 10_000,
        },
        arms=("none", "chain(strength=50,share=0.01,window=1000)", "fire@task", "reset@task", "replay(keep=0)@task"),
    ),
)
