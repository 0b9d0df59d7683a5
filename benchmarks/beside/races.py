"""The races: who runs, what is counted, and by how much supple should lead.

A side is `module:function argument …`. The function takes a number of threads and the arguments. It returns one
turn, and the number of units in it.
"""

from dataclasses import dataclass, field

OURS = "supple"


@dataclass(frozen=True)
class Race:
    title: str
    unit: str
    sides: dict[str, str]
    bars: dict[str, float] = field(default_factory=dict)  # peer → how many times as fast supple should be
    threads: tuple[int, ...] = (1, 2)  # each side is at its best number of them


def _ppo(task: str) -> Race:
    return Race(
        f"PPO, 8 × {task}-v5, SB3's default settings",
        "environment steps/s",
        {
            OURS: f"sides_ppo:supple {task}-v5",
            "Stable-Baselines3": f"sides_ppo:sb3 {task}-v5",
            "SBX (JAX)": f"sides_ppo:sbx {task}-v5",
            "CleanRL's loop": f"sides_ppo:cleanrl {task}-v5",
            "LeanRL's loop": f"sides_ppo:leanrl {task}-v5",
        },
        {"Stable-Baselines3": 6.0, "SBX (JAX)": 4.0},
    )


RACES = {
    "ppo-halfcheetah": _ppo("HalfCheetah"),
    "ppo-hopper": _ppo("Hopper"),
    "ppo-walker2d": _ppo("Walker2d"),
    "ppo-cartpole": Race(
        "PPO, one CartPole, preset gym-control",
        "environment steps/s",
        {OURS: "sides_ppo:supple_cartpole", "Stable-Baselines3": "sides_ppo:sb3_cartpole"},
        {"Stable-Baselines3": 3.0},
    ),
    "sac": Race(
        "SAC, HalfCheetah-v5, networks of 2 × 256, batch 256, one update a step",
        "environment steps/s",
        {OURS: "sides_sac:supple", "Stable-Baselines3": "sides_sac:sb3", "SBX (JAX)": "sides_sac:sbx"},
        {"Stable-Baselines3": 2.0, "SBX (JAX)": 1.3},
    ),
    "dqn": Race(
        "DQN learning Asterix, batch 32, an update every 4 steps; supple has 8 environments",
        "environment steps/s",
        {
            OURS: "sides_dqn:supple",
            "supple, --precision bfloat16": "sides_dqn:supple bfloat16",
            "SB3, 1 environment": "sides_dqn:sb3 1",
            "SB3, 8 environments": "sides_dqn:sb3 8",
        },
        {"SB3, 1 environment": 2.0, "SB3, 8 environments": 1.8},
    ),
    "simba": Race(
        "SAC with SimBa at the FIRE paper's size (Table 5), updates alone",
        "updates/s",
        {OURS: "sides_sac:simba", "plain PyTorch": "sides_sac:simba_plain", "JAX, jitted": "sides_sac:simba_jax"},
        {"plain PyTorch": 1.3, "JAX, jitted": 1.0},
    ),
    "classifiers": Race(
        "Random-label classification, MLP 784-100-100-10, batch 16, Adam; supple trains five seeds as one stack",
        "updates of a seed/s",
        {
            OURS: "sides_supervised:stack",
            "plain PyTorch": "sides_supervised:plain",
            "fused Adam": "sides_supervised:plain fused",
        },
        {"plain PyTorch": 6.0},
    ),
    "gpt": Race(
        "GPT of 4 layers × 128, blocks of 64 tokens, batch 32",
        "tokens/s",
        {OURS: "sides_supervised:gpt", "nanoGPT's loop": "sides_supervised:nanogpt"},
        {"nanoGPT's loop": 1.0},
    ),
    "moram": Race(
        "Forward pass of 512 tokens through a Linear of 2,048²: MoRAM with 10 tasks of 16 atoms beside LoRA of rank 16",
        "passes/s",
        {OURS: "sides_supervised:moram", "PEFT's LoRA": "sides_supervised:lora"},
        {"PEFT's LoRA": 1 / 1.5},
    ),
}  # fmt: skip
