"""What benchmarks measure: agents, updates and networks as they are trained, at the sizes that pages name."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from stepped import NO_HOOKS, Stepped, SteppedAgent
from torch import Tensor, nn
from torch.nn import functional as F

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.update import Transitions
from supple.engine.hooks.driver import HookDriver
from supple.engine.kinds import presets_of
from supple.envs.make import quiet_mujoco
from supple.interventions import Learner, learner_for, make, unit_names
from supple.tracks.vision import update
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.model import Model
from supple.tracks.vision.networks.vgg import VGG16
from supple.tracks.vision.settings import VisionSettings
from supple.tracks.vision.task_data import Stream
from supple.tracks.vision.work import VisionWork

ENDLESS = 10**10
CHEETAH, ASTERIX = "HalfCheetah-v5", "ALE/Asterix-v5"
LIKE_SB3: dict[str, Any] = {  # Stable-Baselines3's defaults of PPO in our words, eight environments
    "num_envs": 8, "rollout_steps": 2048, "epochs": 10, "minibatch_size": 64, "learning_rate": 3e-4, "adapter": 0,
    "hidden": (64, 64), "share_value": False, "clip_value": False, "normalize_observations": False,
    "normalize_rewards": False,
}  # fmt: skip
SEEDS = (0, 1, 2, 3, 4)  # of the stack of classifiers


def ppo(env: str = CHEETAH, **own: Any) -> SteppedAgent:
    quiet_mujoco()
    return SteppedAgent("ppo", PPOSettings(**{"env": env, "steps": ENDLESS, **LIKE_SB3, **own}))


def cartpole(width: int = 256, **own: Any) -> SteppedAgent:
    """Return PPO on one CartPole as in the preset gym-control. width: 256 is C-CHAIN's, 128 TRAC's."""
    return SteppedAgent("ppo", PPOSettings(**{**GYM_CONTROL, "hidden": (width,) * 3, **own}))


def dqn(threads: int, wait: bool = False, **own: Any) -> SteppedAgent:
    """Return DQN on eight games of Asterix, a gradient step every 4 of their steps. wait: see `SteppedAgent`."""
    chosen = {"num_envs": 8, "replay_ratio": 0.25, "replay_size": 50_000, "learning_starts": 0, "device": "cpu"}
    game = {"env": ASTERIX, "steps": ENDLESS, "threads": threads, "env_threads": threads}
    return SteppedAgent("dqn", DQNSettings(**{**game, **chosen, **own}), wait=wait)


def sac_settings(preset: str = "sac-mlp", **own: Any) -> SACSettings:
    """Return the settings of a preset on HalfCheetah, by default Stable-Baselines3's: two layers of 256, batches of
    256, one update a step."""
    chosen = {"num_envs": 1, "device": "cpu", **presets_of("sac")[preset].settings}
    return SACSettings(**{**chosen, "env": CHEETAH, "steps": ENDLESS, **own})


def sac_update(preset: str = "sac-mlp", **own: Any) -> SAC:
    """Return an agent of these settings whose environment nobody makes."""
    return SAC(sac_settings(preset, **own), {CHEETAH: Control(17, (-1.0,) * 6, (1.0,) * 6)})


SIMBA: dict[str, Any] = {"env": "h1-walk", "steps": ENDLESS, "device": "cpu", "compile": "off", "replay_size": 10_000}


def simba(**own: Any) -> SAC:
    """Return an agent of the FIRE paper's Table 5, sizes of h1-walk; from one seed, the same weights."""
    return SAC(SACSettings(**{**SIMBA, **own}), {"h1-walk": Control(51, (-1.0,) * 19, (1.0,) * 19)})


def transitions(agent: SAC) -> tuple[Transitions, Tensor]:
    """Return a batch that looks like normalised transitions, and noise (n, 2, actions)."""
    random = torch.Generator().manual_seed(0)
    n, size, observation = agent.settings.batch_size, agent.size, agent.control.observation
    states, next_states = torch.randn(2, n, observation, generator=random)
    actions = 2 * torch.rand(n, size, generator=random) - 1
    rewards, discounts = (
        torch.rand(n, generator=random),
        agent.settings.gamma * (torch.rand(n, generator=random) > 0.02),
    )
    return Transitions(states, actions, rewards, discounts, next_states), torch.randn(n, 2, size, generator=random)


# -- classifiers ------------------------------------------------------------------------------------------------------


def random_bytes() -> DataSet:
    """Return images of random bytes, which cost what MNIST's do."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2000, 1, 28, 28), generator=draws, dtype=torch.uint8)
    labels = torch.randint(10, (2000,), generator=draws)
    return DataSet("random bytes", "random bytes", images, labels, images[:10], labels[:10], 10)


def vision_settings(seeds: tuple[int, ...] = SEEDS, **own: Any) -> VisionSettings:
    """Return random labels for the MLP 784-100-100-10, batch 16, Adam 1e-3 (arXiv 2509.22562, Table E1)."""
    preset = presets_of("vision")["random-label-mnist"].settings
    return VisionSettings(**{**preset, "device": "cpu", "compile": "off", **own}, seeds=seeds)


class Stacked(Stepped):
    """All seeds as one stack, stepped as in training."""

    def __init__(
        self,
        compiled: bool,
        seeds: tuple[int, ...] = SEEDS,
        hooks: Callable[[Model], HookDriver] = lambda _: NO_HOOKS,
        **own: Any,
    ) -> None:
        data, settings = random_bytes(), vision_settings(seeds, **own)
        stream = Stream(settings, data)
        self.work = VisionWork(settings, stream, Model(settings, data, stream.classes, settings.device))
        super().__init__(self.work)
        self.update = update.Update(self.work.model, hooks(self.work.model), compiled)
        self.work.update, self.loss = self._update, torch.zeros(len(seeds))

    def _update(self, images: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        self.fed = time.perf_counter()
        self.loss, hits = self.update(images, labels, rate)
        return self.loss, hits

    def __call__(self, updates: int = 1) -> None:
        for _ in range(updates):
            self.advance()

    def parts(self, updates: int) -> dict[str, float]:
        """Return the median microseconds of each part of an update."""
        clock, marks, inner = time.perf_counter, [0.0, 0.0], update.step

        def timed(optimizer: torch.optim.Optimizer) -> None:
            marks[0] = clock()
            inner(optimizer)
            marks[1] = clock()

        update.step = timed
        spent: dict[str, list[float]] = {name: [] for name in ("batch", "loss and gradients", "Adam", "bookkeeping")}
        for _ in range(updates):
            started = clock()
            self.advance()
            ends = (started, self.fed, *marks, clock())
            for times, (start, end) in zip(spent.values(), pairwise(ends), strict=True):
                times.append(end - start)
        update.step = inner
        return {name: 1e6 * median(times) for name, times in spent.items()}


# -- a large network --------------------------------------------------------------------------------------------------


def vgg(device: str, batch: int, images: int) -> Learner:
    """Return VGG-16 for Tiny-ImageNet's sizes with Adam's state in place and a tenth of the channels dormant, so that
    ReDo has something to do. images: of random pixels, which DASH and a pass of gradients look at."""
    torch.manual_seed(0)
    network = VGG16((3, 64, 64), 200).to(device)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # makes the state, and changes nothing
    optimizer.zero_grad()
    pixels = torch.randint(256, (images, 3, 64, 64), dtype=torch.uint8).to(device)
    labels = torch.randint(200, (images,)).to(device)

    def losses(part: slice) -> Tensor:
        return F.cross_entropy(network(pixels[part].float().div_(255)), labels[part], reduction="none")

    def batches(count: int | None) -> Iterator[Tensor]:
        starts = range(0, images, batch)[slice(count)]
        return (losses(slice(start, start + batch)) for start in starts)

    recent = slice(0, batch)
    learner = learner_for(
        network,
        optimizer,
        probe=lambda: (pixels[recent].float().div_(255),),
        loss=lambda: losses(recent).mean(),
        batches=batches,
        layers=network.layers(),
        units=unit_names(network),
        fresh=lambda: VGG16((3, 64, 64), 200),
    )
    with torch.no_grad():
        for norm in (part for part in network.modules() if isinstance(part, nn.BatchNorm2d)):
            norm.weight[::10] = norm.bias[::10] = 0
    return learner


def gradients_of_pass(learner: Learner) -> None:
    """Compute the gradients that DASH needs, and nothing else."""
    named = dict(learner.module.named_parameters())
    parameters = [named[name] for name in learner.parameters_of(learner.layers)]
    for losses in learner.batches(None):
        torch.autograd.grad(losses.mean(), parameters)


def application(learner: Learner, name: str) -> Callable[[], object]:
    """Return a call that does what a hook does when it fires: rewrites weights, then zeroes optimizer state."""
    intervention = make(name)
    intervention.attach(learner)
    return lambda: intervention.apply(learner)
