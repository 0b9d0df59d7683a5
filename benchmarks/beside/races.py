"""The races: who runs, what is counted, and by how much supple should lead.

A side is `module:function argument …`. The function takes a number of threads and the arguments. It returns one
turn, and the number of units in it.
"""

from dataclasses import dataclass, field

OURS = "supple"
FLOOR = "floor: what cannot be left out"


@dataclass(frozen=True)
class Race:
    title: str
    unit: str
    sides: dict[str, str]
    bars: dict[str, float] = field(default_factory=dict)  # peer → how many times as fast supple should be
    threads: tuple[int, ...] = (1, 2)  # each side is at its best number of them
    needs: tuple[str, ...] = ()  # environment variables that name what a peer's own code is in


def _ppo(task: str) -> Race:
    return Race(
        f"PPO, 8 × {task}-v5, SB3's default settings",
        "environment steps/s",
        {
            OURS: f"sides_ppo:supple {task}-v5",
            "Stable-Baselines3": f"sides_ppo:sb3 {task}-v5",
            "SBX (JAX)": f"sides_ppo:sbx {task}-v5",
            "CleanRL's loop": f"sides_ppo:loop {task}-v5 eager",
            "LeanRL's loop": f"sides_ppo:loop {task}-v5 compiled",
        },
        {"Stable-Baselines3": 6.0, "SBX (JAX)": 4.0},
    )


def _cartpole(width: int, title: str) -> Race:
    sides = {OURS: f"sides_ppo:supple_cartpole {width}", "Stable-Baselines3": f"sides_ppo:sb3_cartpole {width}"}
    return Race(title, "environment steps/s", sides, {"Stable-Baselines3": 3.0})


def _images(kind: str, title: str, bar: float) -> Race:
    sides = {OURS: f"sides_images:supple {kind}", "Stable-Baselines3": f"sides_images:sb3 {kind}"}
    sides[FLOOR] = f"sides_images:floor {kind}"
    return Race(title, "environment steps/s", sides, {"Stable-Baselines3": bar})


def _seeds(kind: str, title: str, seeds: tuple[int, ...], peers: dict[str, str], bars: dict[str, float]) -> Race:
    """Return the race of the first number of seeds at once with fewer of them, and with peers; each has one core."""
    most, *fewer = seeds
    names = {most: OURS, **{count: f"supple, {count} seed{'s' * (count > 1)}" for count in fewer}}
    sides = {name: f"sides_seeds:supple {kind} {count}" for count, name in names.items()}
    return Race(f"{title}, {most} seeds at once on one core", "environment steps/s", sides | peers, bars, threads=(1,))


def _gpt(size: str, title: str) -> Race:
    sides = {OURS: f"sides_gpt:supple {size}", "nanoGPT's loop": f"sides_gpt:nanogpt {size}"}
    return Race(title, "tokens/s", sides, {"nanoGPT's loop": 1.0})


def _replay(size: int) -> Race:
    sides = {OURS: f"sides_dqn:memory {size}", "Stable-Baselines3": f"sides_dqn:memory_of_sb3 {size}"}
    sides[FLOOR] = f"sides_dqn:copy {size}"
    return Race(f"A draw of {size} transitions from a memory of 84×84×4 images", "draws/s", sides, threads=(1,))


def _fire(network: str, title: str) -> Race:
    methods = {OURS: "newton_schulz", "the same, tap by tap": "tap-by-tap", "polar_express": "polar_express"}
    methods["polar: SVD in float64"] = "polar"
    sides = {name: f"sides_networks:fire {network} {method}" for name, method in methods.items()}
    sides["floor: its cubic steps at the rate of 1024³"] = f"sides_networks:fire_floor {network}"
    return Race(title, "applications/s", sides)


def _exact(width: int) -> Race:
    ways = {OURS: "qq", "supple, W₂W₁ alone": "function", "eq. 7 as printed, time by time": "formula"}
    sides = {name: f"sides_networks:exact {width} {way}" for name, way in ways.items()}
    sides["floor: its operations and its memory"] = f"sides_networks:exact_floor {width}"
    return Race(f"QQᵀ(t) of a linear network {width}-{width}-{width} at 10,000 times", "times/s", sides)


def _authors(preset: str, title: str, peer: str, side: str, *needs: str) -> Race:
    sides = {OURS: f"sides_authors:ours {preset}", peer: f"sides_authors:{side}"}
    sides[FLOOR] = f"sides_authors:floor {preset}"
    return Race(f"{title}, preset {preset} on HalfCheetah, updates alone", "updates/s", sides, {peer: 1.2}, needs=needs)


RACES = {
    "ppo-halfcheetah": _ppo("HalfCheetah"),
    "ppo-hopper": _ppo("Hopper"),
    "ppo-walker2d": _ppo("Walker2d"),
    "ppo-cartpole": _cartpole(256, "PPO, one CartPole, preset gym-control"),
    "ppo-cartpole-128": _cartpole(128, "PPO, one CartPole, gym-control at width 128"),
    "ppo-minatar": _images("minatar", "PPO, 8 × MinAtar Breakout, 16 convolutions of 3 × 3 and 128 units", 3.0),
    "ppo-nature": _images("nature", "PPO, 8 × images of 64 × 64 × 3, the Nature DQN's convolutions", 1.3),
    "ppo-seeds": _seeds(
        "ppo",
        "PPO, CartPole, gym-control at width 128",
        (10, 5, 1),
        {
            "Stable-Baselines3": "sides_ppo:sb3_cartpole 128",
            "rejax (JAX), 10 seeds": "sides_seeds:rejax 10",
            "rejax (JAX), 1 seed": "sides_seeds:rejax 1",
        },
        {"supple, 1 seed": 4.0, "Stable-Baselines3": 12.0, "rejax (JAX), 10 seeds": 1.0},
    ),
    "dqn-seeds": _seeds(
        "dqn",
        "DQN, CartPole, 2 × 256, batch 32",
        (5, 1),
        {"Stable-Baselines3": "sides_seeds:sb3_dqn"},
        {"supple, 1 seed": 3.0},
    ),
    "sac-64-seeds": _seeds(
        "sac-64",
        "SAC, Pendulum, 2 × 64",
        (5, 1),
        {"Stable-Baselines3": "sides_seeds:sb3_sac 64"},
        {"supple, 1 seed": 2.5},
    ),
    "sac-256-seeds": _seeds(
        "sac-256",
        "SAC, HalfCheetah, 2 × 256",
        (5, 1),
        {"Stable-Baselines3": "sides_seeds:sb3_sac 256"},
        {"supple, 1 seed": 1.3},
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
            OURS: "sides_dqn:supple learning",
            "supple, --precision bfloat16": "sides_dqn:supple learning bfloat16",
            "SB3, 1 environment": "sides_dqn:sb3 learning 1",
            "SB3, 8 environments": "sides_dqn:sb3 learning 8",
        },
        {"SB3, 1 environment": 2.0, "SB3, 8 environments": 1.8},
    ),
    "dqn-playing": Race(
        "DQN playing Asterix at random, before it learns; supple has 8 environments",
        "environment steps/s",
        {
            OURS: "sides_dqn:supple playing",
            "SB3, 1 environment": "sides_dqn:sb3 playing 1",
            "SB3, 8 environments": "sides_dqn:sb3 playing 8",
        },
    ),
    "dqn-minatar": Race(
        "DQN, MinAtar Breakout, 16 kernels of 3 × 3 and 128 units, batch 32, an update every frame",
        "environment steps/s",
        {
            OURS: "sides_dqn:minatar on",
            "supple, --compile off": "sides_dqn:minatar off",
            "Stable-Baselines3": "sides_dqn:minatar_of_sb3",
            FLOOR: "sides_dqn:minatar_floor",
        },
        {"Stable-Baselines3": 2.0},
    ),
    "simba": Race(
        "SAC with SimBa at the FIRE paper's size (Table 5), updates alone",
        "updates/s",
        {
            OURS: "sides_sac:simba",
            "plain PyTorch": "sides_sac:simba_plain",
            "JAX, jitted": "sides_sac:simba_jax",
            FLOOR: "sides_sac:simba_floor",
        },
        {"plain PyTorch": 1.3, "JAX, jitted": 1.0},
    ),
    "simba-v2": _authors("simba-v2", "SimBaV2", "the authors' code (JAX)", "simba_v2", "SIMBAV2", "SIMBAV2_PYTHON"),
    "flash-sac": _authors("flash-sac", "FlashSAC", "the authors' code, compiled", "flash_sac max-autotune", "FLASHSAC"),
    "classifiers": Race(
        "Random-label classification, MLP 784-100-100-10, batch 16, Adam; supple trains five seeds as one stack",
        "updates of a seed/s",
        {
            OURS: "sides_classifiers:stack compiled",
            "supple, eager": "sides_classifiers:stack eager",
            "plain PyTorch": "sides_classifiers:plain",
            "fused Adam": "sides_classifiers:plain fused",
        },
        {"plain PyTorch": 6.0},
    ),
    "gpt": _gpt("small", "GPT of 4 layers × 128, blocks of 64 tokens, batch 32"),
    "gpt-124m": _gpt("124M", "GPT of 124M parameters, blocks of 256 tokens, batch 2"),
    "moram": Race(
        "Forward pass of 512 tokens through a Linear of 2,048²: MoRAM with 10 tasks of 16 atoms beside LoRA of rank 16",
        "passes/s",
        {OURS: "sides_networks:moram_side moram", "PEFT's LoRA": "sides_networks:moram_side lora"},
        {"PEFT's LoRA": 1 / 1.5},
    ),
    "replay-32": _replay(32),
    "replay-128": _replay(128),
    "fire-vgg": _fire("vgg", "FIRE on VGG-16's weights (32×32 inputs, head 512-512-10)"),
    "fire-agent": _fire("agent", "FIRE on an agent's network 105-256-256-256, heads 8 and 1"),
    "linear-exact-25": _exact(25),
    "linear-exact-50": _exact(50),
}
