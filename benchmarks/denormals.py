"""What do denormal numbers cost? Updates of DQN, SAC and PPO, and a step of Adam, with dead units and without.

    python benchmarks/denormals.py [--threads 1] [--rounds 5] [--compile] [--no-flush]

Each agent is there twice, as it is and with a third of the units of every hidden layer dead: biases of −100, and
slots of Adam that have decayed as far as they do where denormal numbers are kept (β·m is rounded to m in the end, so
they stay there for ever). The two take turns; medians of the rounds, with the smallest and largest. Before them fused
Adam steps by themselves. Two processes, with and without `--no-flush`, show what it gains to take such numbers for
zero: on some processors much, on others nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
import tyro
from stepped import SteppedAgent
from timing import Options, Rounds, begin, seconds
from torch import Tensor

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.engine.kinds import presets_of
from supple.interventions import Learner

TINY = 1e-42  # a denormal number
PARAMETERS, ADAM_STEPS = 400_000, 100
STEPS = {"ppo": 2_048, "dqn": 64, "sac": 100}  # of the environments, in a round


@dataclass(frozen=True)
class Args(Options):
    threads: int = 1  # of PyTorch
    rounds: int = 5  # turns of each
    compile: bool = False  # PPO's and SAC's updates


def make_agent(kind: str, args: Args) -> SteppedAgent:
    common: dict[str, Any] = {"steps": 10**9, "threads": args.threads}
    cheetah, compiled = "HalfCheetah-v5", "on" if args.compile else "off"
    if kind == "ppo":
        return SteppedAgent("ppo", PPOSettings(env=cheetah, activation="relu", compile=compiled, **common))
    common |= {"device": "cpu", "learning_starts": 100}
    if kind == "dqn":
        return SteppedAgent("dqn", DQNSettings(env="ALE/Asterix-v5", replay_size=10_000, **common))
    preset = dict(presets_of("sac")["sac-mlp"].settings)
    return SteppedAgent("sac", SACSettings(**{**preset, **common}, env=cheetah, num_envs=1, compile=compiled))


@torch.no_grad()
def kill_units(learner: Learner) -> None:
    """Let a third of the units before every activation be dead, and long so."""
    named = dict(learner.module.named_parameters())
    assert learner.optimizer is not None
    for layer in set(chain.from_iterable(wiring.incoming for wiring in learner.wiring.values())):
        weight, bias = named[f"{layer}.weight"], named[f"{layer}.bias"]
        axis = bias.ndim - 1  # that of the units; a stack has an axis before it
        bias.narrow(axis, 0, bias.shape[axis] // 3).fill_(-100.0)
        for parameter in (weight, bias):
            slots = learner.optimizer.state[parameter]
            for slot in (slots["exp_avg"], slots["exp_avg_sq"]):
                slot.narrow(axis, 0, slot.shape[axis] // 3).fill_(TINY)


def time_adam(dead: bool) -> Callable[[], float]:
    """Return the milliseconds of fused steps with zero gradients. dead: all slots are denormal."""
    parameter = torch.ones(PARAMETERS, requires_grad=True)
    parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.Adam([parameter], fused=True)
    optimizer.step()
    slots: dict[str, Tensor] = optimizer.state[parameter]
    for name in ("exp_avg", "exp_avg_sq"):
        slots[name].fill_(TINY if dead else 1.0)
    return lambda: 1e3 * seconds(lambda: [optimizer.step() for _ in range(ADAM_STEPS)])


def time_updates(kind: str, args: Args, dead: bool) -> Callable[[], float]:
    """Return the milliseconds of updating per environment step."""
    run = make_agent(kind, args)
    run.live(4 * STEPS[kind])
    for learner in run.agent.learners.values() if dead else ():
        kill_units(learner)
    run.live(STEPS[kind])
    return lambda: 1e3 * run.live(STEPS[kind])["updating"] / STEPS[kind]


def main(args: Args) -> None:
    begin(args.threads, args.flush)
    print(f"{args.threads} thread(s), {args.rounds} rounds in turn; milliseconds: median (min–max)")
    pairs = {f"{ADAM_STEPS} fused Adam steps": (time_adam(False), time_adam(True))}
    pairs |= {f"{kind}, updating": (time_updates(kind, args, False), time_updates(kind, args, True)) for kind in STEPS}
    for name, pair in pairs.items():
        alive, dead = Rounds(3), Rounds(3)
        for _ in range(args.rounds):
            for rounds, call in zip((alive, dead), pair, strict=True):
                rounds.values.append(call())
        print(f"  {name:34} alive {alive!s:24} dead {dead!s:24} dead / alive {dead.median / alive.median:.2f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
