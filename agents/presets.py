"""The presets of agents: named settings of whole experiments."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from supple.engine.kinds import Preset, add

# The measures of reports, by environment. Mean return is that from the fork on, final return that at the end.
MEAN, LATER, FINAL = MEASURES = "mean return", "mean return after the first task", "final return"
# Results of these presets were published before the interval of checkpoints fitted the length of a run. They keep the
# one of then, because a checkpoint ends episodes.
AS_PUBLISHED = {"checkpoint_every": 250_000}
CLEANRL = {
    # CleanRL's continuous PPO (cleanrl/ppo_continuous_action.py): 2048 steps, 10 epochs, 32 minibatches, a value loss
    # of ½ · ½ of the mean squared error. The cycling-MuJoCo paper names no hyperparameters but Adam and its learning
    # rate. CleanRL's annealing is left out (`--schedule linear --schedule-over run`): CleanRL trains on one task, but
    # here later tasks would have a learning rate near 0, whose effect could not be told from a loss of plasticity.
    "num_envs": 1,
    "rollout_steps": 2048,
    "epochs": 10,
    "minibatch_size": 64,
    "learning_rate": 1e-4,
    "value_coefficient": 0.25,
    "clip_value": True,
}
# The backbone of the cycling-MuJoCo paper, which policy and value share.
BACKBONE = {"hidden": (256, 256), "share_value": True}
CYCLING = {**CLEANRL, **BACKBONE, "cycles": 3, "steps_per_task": 1_000_000, "activation": "relu", "eval_episodes": 10}
# FIRE paper, Table 4 and the released code: 10 × 250k agent steps, replay ratio 1, four environments. The defaults
# of DQNSettings are the rest of that table.
FIRE_ATARI = {
    "env": "ALE/Asterix-v5", "steps": 2_500_000, "eval_episodes": 10, "learning_starts": 20_000,
    "exploration_steps": 250_000,
}  # fmt: skip
FIRE_ARMS = ("fire", "snp", "reset", "injection")
# FIRE paper, Section 4.3.1 and Table 5: 1M environment steps (500k decisions), evaluated with 10 episodes every 10k
# decisions. The defaults of SACSettings are the rest of that table.
FIRE_HUMANOID = {"env": "h1-walk-v0", "steps": 1_000_000, "eval_every": 20_000, "eval_episodes": 10}
# Stable-Baselines3's SAC: MLPs, Adam without weight decay, one gradient step per environment step.
SAC_MLP = {
    "network": "mlp",
    "log_std": "clipped",
    "action_repeat": 1,
    "replay_ratio": 1.0,
    "normalize_observations": False,
    "learning_rate": 3e-4,
    "weight_decay": 0.0,
    "temperature": 1.0,
    "target_entropy": -1.0,
    "learning_starts": 100,
}
# What the next three have in common: MuJoCo at 1M steps, one gradient step per step, no action repeat, no decay.
MUJOCO = {
    "env": "HalfCheetah-v5", "steps": 1_000_000, "action_repeat": 1, "replay_ratio": 1.0, "weight_decay": 0.0,
    "eval_episodes": 10,
}  # fmt: skip
# Returns scaled to [−5, 5], on which 101 atoms lie (normalized_g_max, critic_num_bins in both papers' configurations).
SCALED = {"critic_head": "categorical", "atoms": 101, "scale_rewards": 5.0}
# SimBaV2 (arXiv 2502.15280): released code, configs/agent/simbaV2.yaml. γ is that of configs/online_rl.yaml if episodes
# have 1000 steps. The defaults of SACSettings, which are SimBa's, are the rest of that file.
SIMBA_V2 = {
    **MUJOCO, **SCALED, "network": "simba_v2", "gamma": 0.995,
    "schedule": "linear", "schedule_over": "run", "min_rate": 0.5,  # learning_rate_init 1e-4, _end 5e-5
}  # fmt: skip
# FlashSAC (Holiday-Robot/FlashSAC, 87edc90): configs/agent/flashSAC.yaml, and scripts/run_mujoco.sh for CPU simulators.
# There the rates of actor and temperature decay half as fast, because they are counted by their own updates.
FLASH_SAC = {
    **MUJOCO, **SCALED, "network": "flash", "normalize_observations": False, "batch_size": 512,
    "learning_starts": 10_000, "actor_width": 128, "actor_blocks": 2, "critic_width": 256, "critic_blocks": 2,
    "learning_rate": 3e-4, "schedule": "cosine", "schedule_over": "run", "min_rate": 0.5, "tau": 0.01,
    "policy_delay": 2,  # actor_update_period
    "noise_repeat": 16,  # actor_noise_zeta_max, with actor_noise_zeta_mu 2
    "target_entropy": 0.5 * math.log(2 * math.pi * math.e * 0.15**2),  # temp_target_sigma
}  # fmt: skip
# CrossQ (arXiv 1902.05605): released code (adityab/CrossQ), train.py with -algo crossq, and defaults of sbx/sac/sac.py.
# There β₁ of the temperature is .9, and the critics are updated before the actor.
CROSSQ = {
    **MUJOCO, "network": "crossq", "normalize_observations": False, "log_std": "clipped", "actor_width": 256,
    "actor_blocks": 2, "critic_width": 2048, "critic_blocks": 2, "learning_rate": 1e-3, "adam_betas": (0.5, 0.999),
    "policy_delay": 3, "temperature": 1.0, "target_entropy": -1.0,
}  # fmt: skip

# Continual Gym Control as in C-CHAIN's code (Tang et al., ICML 2025; the notebook of TRAC, Muppidi et al. 2024, has
# width 128 and learning rate 1e-2): tasks of 200 rollouts of 800 steps, each with another constant offset of the
# observations. Episodes have at most 400 steps and end with the rollout.
GYM_CONTROL = {
    "env": "CartPole-v1",
    "cycles": 10,
    "steps_per_task": 160_000,
    "shift": "offset(scale=2)",
    "max_episode_steps": 400,
    "num_envs": 1,
    "rollout_steps": 800,
    "restart_episodes": True,
    "epochs": 5,
    "minibatch_size": 32,
    "learning_rate": 1e-3,
    "adam_epsilon": 1e-8,
    "target_lambda": 1.0,
    "reward_scale": 0.05,
    "advantage_scope": "batch",
    "clip_value": False,
    "entropy_coefficient": 0.01,
    "max_grad_norm": 0.0,
    "hidden": (256, 256, 256),
    "share_value": False,
    "adapter": 0,
    "initialization": "pytorch",
    "activation": "leaky_relu(negative_slope=0.1)",
    "normalize_observations": False,
    "normalize_rewards": False,
    "eval_episodes": 0,
}
# The demo. At the switch actions change places, so that no frozen policy fits, and observations are multiplied and
# moved, so that the old policy is certain of its actions everywhere. A new network hardly sees the move, which the
# factor makes small. The learning rate falls in each level, or agents would get worse again late in it. Settings and
# strengths were chosen on seeds 100 to 109. Claim, for seeds 0 to 9, and for 10 to 19, which no earlier demo was run
# with: in the last fifth of the second level `none` returns less than 60 with 9 or more of ten seeds. The means over
# seeds there: `fresh` more than 350, each arm that repairs more than 300. Outcome: docs/results/gym_control.md.
GYM_CONTROL_SMALL = {
    **GYM_CONTROL,
    **AS_PUBLISHED,
    "cycles": 2,
    "steps_per_task": 60_000,
    "shift": "rescale(low=3,high=5) + offset(scale=2) + flip_actions",
    "hidden": (128, 128, 128),
    "learning_rate": 3e-3,
    "schedule": "linear",
    "measure_every": 6_000,
    "compile": "on",
}


def small(preset: Preset, about: str, settings: Mapping[str, Any], **others: Any) -> Preset:
    """Return a preset `NAME-small`, which differs from another one in these settings and other fields."""
    about, settings = f"small {preset.name}: {about}", {**preset.settings, **settings}
    return replace(preset, name=f"{preset.name}-small", about=about, settings=settings, **others)


FIVE = (0, 1, 2, 3, 4)
TASK_ARMS = ("none", "fire@task", "snp@task", "reset@task")

fire_atari = Preset(
    "fire-atari",
    "paper size: DQN on Asterix (--env for BeamRider, DemonAttack), 2.5M steps; five arms from the midpoint, "
    "with the reset contract of the released code",
    "dqn",
    FIRE_ATARI,
    arms=("none", *(f"{arm}(contract=as_released)" for arm in FIRE_ARMS)),
    seeds=FIVE,
    leads=FINAL,
)
fire_humanoid = Preset(
    "fire-humanoid",
    "paper size: SAC with SimBa on h1-walk (--env for h1-balance_simple, h1-run), 1M steps; five arms from the "
    "midpoint, with the reset contract of the released code (injection: no code was released)",
    "sac",
    FIRE_HUMANOID,
    arms=("none", *(f"{arm}(contract=as_released)" for arm in FIRE_ARMS[:3]), "injection"),
    seeds=FIVE,
    leads=FINAL,
)
cycling = Preset(
    "cycling-mujoco",
    "paper size: HalfCheetah, Hopper, Walker2d, Ant; 3 cycles × 1M steps (the paper's text); "
    "CleanRL's value loss, but not its annealing, which would slow down learning in later tasks",
    "ppo",
    {**CYCLING, "sequence": "cycling-text"},
    arms=TASK_ARMS,
    fork_at=1 / 3,
    seeds=FIVE,
    leads=FINAL,
)
add(
    Preset(
        "demo-mujoco",
        "two short cycles through four MuJoCo tasks, four arms from the midpoint; minutes on two cores",
        "ppo",
        {
            **BACKBONE,
            **AS_PUBLISHED,
            "sequence": "halfcheetah,hopper,walker2d,ant",
            "cycles": 2,
            "steps_per_task": 24_576,
            "minibatch_size": 256,
            "clip_value": True,
            "activation": "relu",
            "measure_every": 8_192,
            "eval_episodes": 3,
            "compile": "off",
        },
        arms=TASK_ARMS,
        fork_at=0.5,
    ),
    Preset(
        "gym-control",
        "paper size: CartPole (or --env acrobot, lunarlander) with nine shifts of the observations, 1.6M steps; "
        "2 hours on two cores (extrapolated)",
        "ppo",
        GYM_CONTROL,
        arms=TASK_ARMS,
        fork_at=0.0,
        reference="fresh",
        seeds=(*FIVE, 5),
        leads=LATER,
    ),
    Preset(
        "gym-control-small",
        "the demo: CartPole whose observations shift while its actions change places, 120k steps, four arms and a "
        "fresh agent; a few minutes on two cores",
        "ppo",
        GYM_CONTROL_SMALL,
        arms=("none", "reset@task", "fire@task", "snp(lam=0.9)@task"),
        fork_at=0.5,
        reference="fresh",
        seeds=FIVE,
        leads=LATER,
    ),
    cycling,
    replace(
        cycling,
        name="cycling-mujoco-v5",
        about="paper size: HalfCheetah, Humanoid, Ant, Hopper; 3 cycles × 1M steps (the paper's tables); "
        "CleanRL's value loss, but not its annealing",
        settings={**CYCLING, "sequence": "cycling-tables"},
    ),
    fire_atari,
    small(
        fire_atari,
        "80k steps, three seeds, a schedule in proportion, the uniform reset contract; hours on two cores",
        {
            "steps": 80_000,
            "replay_size": 80_000,
            "learning_starts": 2_000,
            "exploration_steps": 10_000,
            "target_period": 500,
            "eval_every": 10_000,
            "measure_every": 2_000,
            "checkpoint_every": 20_000,
        },
        arms=("none", *FIRE_ARMS),
        seeds=(0, 1, 2),
    ),
    fire_humanoid,
    small(
        fire_humanoid,
        "60k steps, critics with a thirtieth of the parameters, three seeds, the uniform reset "
        "contract; an hour or two on two cores",
        {
            "steps": 60_000,
            "replay_size": 30_000,
            "learning_starts": 2_500,
            "replay_ratio": 1.0,
            "critic_width": 128,
            "critic_blocks": 1,
            "eval_every": 10_000,
            "eval_episodes": 5,
            "measure_every": 5_000,
            "checkpoint_every": 15_000,
        },
        arms=("none", *FIRE_ARMS),
        seeds=(0, 1, 2),
    ),
    Preset(
        "sac-mlp",
        "SAC with the settings of Stable-Baselines3: two layers of 256, no action repeat, no normalisation; give --env "
        "and --steps",
        "sac",
        SAC_MLP,
        arms=("none", *FIRE_ARMS),
        seeds=FIVE,
    ),
    *(
        Preset(
            name,
            f"paper size: SAC with the networks and settings of {paper} on HalfCheetah (--env for others), 1M steps",
            "sac",
            settings,
            arms=("none", *FIRE_ARMS),
            seeds=FIVE,
            leads=FINAL,
        )
        for name, paper, settings in (
            ("simba-v2", "SimBaV2", SIMBA_V2),
            ("flash-sac", "FlashSAC", FLASH_SAC),
            ("crossq", "CrossQ", CROSSQ),
        )
    ),
)
