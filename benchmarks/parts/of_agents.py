"""Agents, as they are stepped in training, beside their floors; and an update of SAC, call by call."""

from collections.abc import Callable
from statistics import median
from typing import Any

import floors
import subjects
import torch
from entries import Asked, Turn, Turns
from floors import mlp, parameters, time_simulator
from stepped import SteppedAgent
from timing import microseconds, seconds

WAYS = {"off": "eager", "on": "compiled"}


def live(run: SteppedAgent, steps: int, warm: int = 0) -> Turn:
    """Return a turn of so many environment steps: µs of one, by part."""
    run.live(warm)
    return lambda: {name: 1e6 * spent / steps for name, spent in run.live(steps).items() if spent}


def floor_of_ppo(env: str, networks: list[list[tuple[int, int, int]]], epochs: int, batch: int) -> Turn:
    """Return its floor: the simulator's step; of an update, its products and Adam's step."""
    calls = [floors.multiply(floors.products_of(network, batch)) for network in networks]
    calls.append(floors.step_adam(sum(map(parameters, networks))))
    return lambda: {
        "environment": time_simulator(env), "updating": epochs * sum(map(microseconds, calls)) / batch,
    }  # fmt: skip


def ppo(asked: Asked, ways: tuple[str, ...] = ("off", "on"), **own: Any) -> Turns:
    chosen = {**subjects.LIKE_SB3, **({"rollout_steps": 64} if asked.small else {}), **own}
    steps = chosen["num_envs"] * chosen["rollout_steps"]
    threads = {"threads": asked.threads, "env_threads": asked.threads}
    turns = {WAYS[way]: live(subjects.ppo(compile=way, **threads, **chosen), steps) for way in ways}
    networks = [mlp(17, chosen["hidden"], outputs) for outputs in (6, 1)]
    floor = floor_of_ppo(subjects.CHEETAH, networks, chosen["epochs"], chosen["minibatch_size"])
    return turns | {"floor": floor}


def cartpole(asked: Asked, width: str) -> Turns:
    steps = 800 if asked.small else 3_200
    made = {WAYS[way]: subjects.cartpole(int(width), compile=way, threads=asked.threads) for way in WAYS}
    settings = made["eager"].work.settings
    networks = [mlp(4, settings.hidden, outputs) for outputs in (2, 1)]
    floor = floor_of_ppo("CartPole-v1", networks, settings.epochs, settings.minibatch_size)
    return {name: live(run, steps) for name, run in made.items()} | {"floor": floor}


def dqn(asked: Asked, **own: Any) -> Turns:
    """Its floor: the passes of the networks, and Adam's step, without the moves of data around them."""
    run = subjects.dqn(asked.threads, **own)
    settings = run.work.settings
    passes = floors.convolve(run.agent, settings.batch_size)
    adam = floors.step_adam(sum(p.numel() for p in run.agent.network.parameters()))
    updates = settings.replay_ratio
    return {
        "supple": live(run, 64 if asked.small else 400, 64 if asked.small else 2_000),
        "floor": lambda: {"updating": updates * (microseconds(passes, 20) + microseconds(adam, 20))},
    }  # fmt: skip


def sac(asked: Asked, ways: tuple[str, ...] = ("off", "on"), **own: Any) -> Turns:
    threads: dict[str, Any] = {"threads": asked.threads, "env_threads": asked.threads}
    runs = {WAYS[w]: SteppedAgent("sac", subjects.sac_settings(compile=w, **threads, **own)) for w in ways}
    bare = subjects.sac_update(compile="off", **own)
    products = floors.multiply([product for part in floors.products_of_sac(bare) for product in part])
    adam = floors.step_adam(size_of(bare))
    steps, warm = (20, 120) if asked.small else (100, 300)  # learning starts after 100
    return {name: live(run, steps, warm) for name, run in runs.items()} | {
        "floor": lambda: {
            "environment": time_simulator(subjects.CHEETAH), "updating": microseconds(products) + microseconds(adam),
        },
    }  # fmt: skip


def size_of(agent: Any, *names: str) -> int:
    learners = agent.learners.values() if not names else [agent.learners[name] for name in names]
    return sum(p.numel() for learner in learners for p in learner.module.parameters())


# -- an update of SAC -------------------------------------------------------------------------------------------------


class Clocks:
    """Clocks around methods; the seconds of each part, which may consist of several calls."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def time(self, owner: Any, method: str, name: Callable[..., str]) -> None:
        """Put a clock around a method. `name` returns the part from its arguments."""
        inner = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            results: list[Any] = []
            taken = seconds(lambda: results.append(inner(*args, **options)))
            self.spent[part] = self.spent.get(part := name(*args), 0.0) + taken
            return results[0]

        setattr(owner, method, timed)


def update_sac(asked: Asked, size: str) -> Turns:
    """Floors: matrix products in their shapes; Adam's step and the target's on one vector, which is in the cache."""
    agent = subjects.simba(compile="on") if size == "simba" else subjects.sac_update(compile="on")
    update: Any = agent.soft_update
    batch, noise = subjects.transitions(agent)
    clocks, updates = Clocks(), (1 if asked.small else 10 if size == "simba" else 40)
    update(batch, noise)  # compiles
    clocks.time(update, "differentiate", lambda loss, *_: loss.__name__.partition("_")[0])
    clocks.time(update, "_step", lambda learner, *_: "AdamW")
    clocks.time(torch, "_foreach_lerp_", lambda *_: "target")

    def one() -> dict[str, float]:
        clocks.spent.clear()
        whole = seconds(lambda: update(batch, noise))
        return {**clocks.spent, "temperature, and Python": whole - sum(clocks.spent.values())}

    def turn() -> dict[str, float]:
        found = [one() for _ in range(updates)]
        return {name: 1e6 * median(parts[name] for parts in found) for name in found[0]}

    actor, critic = map(floors.multiply, floors.products_of_sac(agent))
    alone = {
        "actor": actor, "critic": critic, "AdamW": floors.step_adam(size_of(agent)),
        "target": floors.follow(size_of(agent, "critic")),
    }  # fmt: skip
    return {"supple": turn, "floor": lambda: {name: microseconds(call, updates) for name, call in alone.items()}}
