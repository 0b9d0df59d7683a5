"""The entries: what is measured, in which unit, and how often each contestant has its turn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Turn = Callable[[], Mapping[str, float]]
Turns = Mapping[str, Turn]  # by contestant; a turn returns part → number


@dataclass(frozen=True)
class Asked:
    threads: int
    small: bool  # as little as shows that it works
    simulated: bool = False  # a GPU without values, which records and compiles nothing


@dataclass(frozen=True)
class Entry:
    title: str
    unit: str
    turns: str  # `module:function argument …`, which takes an `Asked` and the arguments, and returns `Turns`
    rounds: int = 7
    adds: bool = False  # parts add up to a whole, which is shown too


STEP, UPDATE = "µs of an environment step", "µs of an update"
ENTRIES = {
    "ppo": Entry("PPO, 8 × HalfCheetah-v5, SB3's default settings", STEP, "of_agents:ppo", adds=True),
    "ppo-cartpole": Entry("PPO, one CartPole, preset gym-control", STEP, "of_agents:cartpole 256", adds=True),
    "ppo-cartpole-128": Entry("PPO, one CartPole, gym-control at width 128", STEP, "of_agents:cartpole 128", adds=True),
    "ppo-stacks": Entry(
        "Gradient steps of PPO, CartPole, 3 × 128, batch 32",
        "µs of CPU for a member's",
        "of_stacks:gradient_steps 128 0",
        9,
    ),
    "ppo-stacks-clipped": Entry(
        "The same with gradients clipped", "µs of CPU for a member's", "of_stacks:gradient_steps 128 0.5", 9
    ),
    "dqn": Entry("DQN, 8 × Asterix, batch 32, an update every 4 steps", STEP, "of_agents:dqn", adds=True),
    "sac": Entry("SAC, HalfCheetah-v5, 2 × 256, batch 256, an update a step", STEP, "of_agents:sac", adds=True),
    "sac-update": Entry("An update of SAC, 2 × 256, batch 256", UPDATE, "of_agents:update_sac mlp", adds=True),
    "simba-update": Entry(
        "An update of SAC with SimBa, Table 5 of FIRE", UPDATE, "of_agents:update_sac simba", adds=True
    ),
    "classifiers": Entry("Five classifiers 784-100-100-10 as one stack, batch 16", UPDATE, "supervised:stack"),
    "metrics": Entry("Measurements of that stack, beside 1,000 updates", "ms", "supervised:metrics", 9),
    "interventions-vgg": Entry("VGG-16, 64×64, 200 classes; DASH on 64 images", "s", "supervised:interventions", 3),
    "moram-tasks": Entry("Forward of 512 tokens by tasks of 16 atoms, width 1,024", "ms", "supervised:moram_tasks"),
    "moram-gathering": Entry(
        "MoRAM's values, gathered or dense, by atoms for each of 16 kept", "ms", "supervised:moram_gathering", 35
    ),
    "hooks-ppo": Entry("PPO, 3 × 256, batch 64, eager", "ms of CPU for an update", "hooks:of_ppo off", 9),
    "hooks-ppo-compiled": Entry("PPO, 3 × 256, batch 64", "ms of CPU for an update", "hooks:of_ppo on", 9),
    "hooks-classifiers": Entry("Five stacked classifiers, eager", "ms of CPU for an update", "hooks:of_stack off", 9),
    "hooks-classifiers-compiled": Entry("Five stacked classifiers", "ms of CPU for an update", "hooks:of_stack on", 9),
    "hooks-idle": Entry("PPO, 8 × HalfCheetah-v5, hooks that wait", STEP, "hooks:idle", 9),
    "denormals": Entry("Updates with a third of the units dead, long so", "ms", "hooks:denormals", 5),
    "physics": Entry("A control step of each of 8 copies, random actions", "µs", "environments:physics", 60),
    "classic": Entry("A step of all copies, with an offset, random actions", "µs of CPU", "environments:classic", 25),
    "physics-ppo": Entry("PPO, 8 × HalfCheetah-v5, SB3's settings", STEP, "environments:physics_ppo", 9),
    "env-workers": Entry("One step of all copies, random actions", "µs", "environments:workers", 15),
    "h1-walk": Entry("A control step of h1-walk, standing", "µs of CPU", "environments:humanoid", 25),
    "checkpoints": Entry("Checkpoints of a replay memory of a million frames", "s", "storage:checkpoints", 2),
    "report": Entry("supple report of a sweep of 200 runs of a million steps", "s, or MiB", "storage:report", 1),
    "gpu-simba-updates": Entry("SAC with SimBa on random transitions, Table 5 of FIRE", "", "on_cuda:simba_updates", 3),
    "gpu-simba-stacks": Entry("SAC with SimBa, 1 and 8 seeds, Table 5 of FIRE", "", "on_cuda:simba_stacks", 3),
    "gpu-simba-v2-updates": Entry("SAC, random transitions, preset simba-v2", "", "on_cuda:preset_updates simba-v2", 3),
    "gpu-flash-sac-updates": Entry(
        "SAC, random transitions, preset flash-sac", "", "on_cuda:preset_updates flash-sac", 3
    ),
    "gpu-crossq-updates": Entry("SAC, random transitions, preset crossq", "", "on_cuda:preset_updates crossq", 3),
    "gpu-simba-humanoid": Entry("SAC with SimBa on Humanoid-v5, 16 copies", "", "on_cuda:simba_humanoid", 3),
    "gpu-dqn": Entry("DQN on 4 × Asterix, batch 32, replay ratio 1", "gradient steps/s", "on_cuda:dqn", 5),
    "gpu-ppo-stacks": Entry("PPO of several seeds, CartPole, 3 × 128", "environment steps/s", "on_cuda:ppo_stacks", 5),
    "gpu-dqn-stacks": Entry("DQN of several seeds, 4 copies each", "gradient steps/s", "on_cuda:dqn_stacks", 5),
    "gpu-ppo": Entry("PPO, 8 × HalfCheetah-v5, SB3's settings", "environment steps/s", "on_cuda:ppo", 3),
    "gpu-ppo-images": Entry("PPO on images, 8 copies", "environment steps/s", "on_cuda:ppo_images", 3),
    "gpu-dqn-minatar": Entry("DQN on 4 × MinAtar Breakout, batch 32", "gradient steps/s", "on_cuda:dqn_minatar", 5),
    "gpu-classifiers": Entry("Classifiers on a GPU and a CPU", "updates/s", "on_cuda:classifiers", 3),
    "gpu-interventions-vgg": Entry("VGG-16, 64×64, batches of 256, 25,600 images", "", "on_cuda:interventions", 5),
    "gpu-gpt-124m": Entry("GPT of 124M, 12 × 1,024 tokens, bfloat16", "tokens/s", "on_cuda:gpt", 3),
    "sweep": Entry("supple sweep of 40 runs of 20 s on two processes", "s", "storage:sweep", 1),
}
