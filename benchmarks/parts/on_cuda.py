"""What is unproven on a GPU: the entries of benchmarks/on_gpu.py. Every turn ends when the GPU is done.

A simulated GPU records and compiles nothing, so that only eager ways are left there.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import floors
import gymnasium as gym
import numpy as np
import subjects
import torch
from entries import Asked, Turn, Turns
from sides_gpt import SIZES, Size, our_turn, peer_turn
from sides_images import Shown
from stepped import NO_HOOKS, SteppedAgent
from timing import seconds

from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.envs import StepResult

AT_ONCE = 16  # updates: what an agent draws together at most


def finished(call: Callable[[], object]) -> float:
    """Return the seconds of a call, to the end of it on the GPU."""

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return seconds(run)


class Way:
    """A way to take updates of SAC: how losses are computed, and in which precision the products are."""

    def __init__(self, compiled: bool, capture: bool, tf32: bool) -> None:
        self.settings: dict[str, Any] = {"device": "cuda", "compile": "on" if compiled else "off", "capture": capture}
        self.precision = "high" if tf32 else "highest"
        ways = [word for word, used in (("compiled", compiled), ("recorded", capture)) if used]
        self.name = f"{' + '.join(ways) or 'eager'}, {'TF32' if tf32 else 'float32'}"

    def set_precision(self) -> None:
        torch.set_float32_matmul_precision(self.precision)


def ways_of(asked: Asked) -> list[Way]:
    """Return the ways, from the plainest to the fastest."""
    return [Way(*way) for way in product((False,) if asked.simulated else (False, True), repeat=3)]


def simba_updates(asked: Asked) -> Turns:
    """Updates on random transitions, AT_ONCE at a time; no environment. Times are those of `agent.update`."""
    updates = AT_ONCE if asked.small else 160
    return {way.name: updating(way, updates) for way in ways_of(asked)}


def recorded(asked: Asked) -> list[Way]:
    return [way for way in ways_of(asked) if way.settings["capture"] or asked.simulated]


def simba_stacks(asked: Asked) -> Turns:
    """Updates of all seeds of a stack, each on its own batch."""
    updates = AT_ONCE if asked.small else 160
    return {
        f"{seeds} {'seeds' if seeds > 1 else 'seed'}: {way.name}": updating(way, updates, seeds)
        for seeds in (1, 8)
        for way in recorded(asked)
    }


def preset_updates(asked: Asked, preset: str) -> Turns:
    """Updates with the networks and settings of a preset, with HalfCheetah's sizes; otherwise as `simba_updates`."""
    updates = AT_ONCE if asked.small else 160
    own = {"batch_size": 16, "critic_width": 16} if asked.small else {}
    make = partial(subjects.sac_update, preset, **own)
    return {way.name: updating(way, updates, make=make) for way in recorded(asked)}


def updating(way: Way, updates: int, seeds: int = 1, make: Callable[..., SAC] = subjects.simba) -> Turn:
    stack = {"seeds": tuple(range(seeds))} if seeds > 1 else {}
    agent = make(num_envs=AT_ONCE, replay_ratio=1.0, learning_starts=0, replay_size=10_000, **way.settings, **stack)
    actor, critic = map(floors.gflop, floors.products_of_sac(agent))
    work, random = (actor / agent.settings.policy_delay + critic) / seeds, np.random.default_rng(0)
    rows = seeds * AT_ONCE
    never = np.zeros(rows, bool)

    def observe() -> np.ndarray:
        return random.standard_normal((rows, agent.control.observation))

    def once() -> float:
        agent.act()
        obs = observe()
        agent.remember(StepResult(obs, random.random(rows), never, never, obs, []))
        torch.cuda.synchronize()
        return finished(lambda: agent.update(NO_HOOKS, last=False))

    def turn(updates: int = updates) -> dict[str, float]:
        way.set_precision()
        rate = seeds * updates / sum(once() for _ in range(updates // AT_ONCE))
        return {"updates/s": rate, "TFLOP/s": rate * work / 1e3}

    agent.begin_episodes(observe())
    turn(5 * AT_ONCE if updates > AT_ONCE else AT_ONCE)  # the eager calls before a recording, the recording, compiling
    return turn


def simba_humanoid(asked: Asked) -> Turns:
    """Return turns that train SimBa end to end.

    The copies step one after the other on the CPU. The first steps, before learning, are random.
    """
    copies, random_steps, steps = (2, 8, 8) if asked.small else (16, 1_024, 960)

    def living(way: Way) -> Turn:
        own = {"env": "Humanoid-v5", "num_envs": copies, "learning_starts": random_steps, "replay_size": 100_000}
        run = SteppedAgent("sac", SACSettings(**{**subjects.SIMBA, **own, **way.settings}))
        way.set_precision()
        run.live(random_steps * run.work.settings.stride + 10 * copies)

        def turn() -> dict[str, float]:
            way.set_precision()
            return {"environment steps/s": steps / finished(lambda: run.live(steps))}

        return turn

    return {way.name: living(way) for way in ways_of(asked)}


def dqn(asked: Asked) -> Turns:
    """Every vector step takes four gradient steps. Learning counts everything, updating only `agent.update`."""
    updates, before = (8, 16) if asked.small else (1_000, 1_000)

    def living(capture: bool) -> Turn:
        own = {"num_envs": 4, "replay_ratio": 1.0, "learning_starts": before, "device": "cuda", "capture": capture}
        run = subjects.dqn(asked.threads, wait=True, **own)
        run.live(before + (8 if asked.small else 200))  # the random steps, and the recording

        def turn() -> dict[str, float]:
            taken = finished(lambda: run.live(updates))
            return {"learning": updates / taken, "updating": updates / run.parts["updating"]}

        return turn

    return {name: living(name == "recorded") for name in ("eager", "recorded")[: 1 if asked.simulated else 2]}


def dqn_stacks(asked: Asked) -> Turns:
    """DQN of several seeds at once, recorded: gradient steps of all of them, each on its own batch of 32."""
    games: dict[str, Any] = {"num_envs": 4, "replay_ratio": 1.0, "replay_size": 10_000, "capture": not asked.simulated}
    carts = games | {"env": "CartPole-v1", "hidden": (64, 64), "clip_rewards": False}
    cases = [("Asterix", games, n) for n in (1, 8)] + [("CartPole", carts, n) for n in (1, 8, 64)]

    def living(own: dict[str, Any], seeds: int) -> Turn:
        updates, before = (8, 16) if asked.small else (400, 1_000)
        stack = {"seeds": tuple(range(seeds))} if seeds > 1 else {}
        run = subjects.dqn(asked.threads, wait=True, learning_starts=before, device="cuda", **own, **stack)
        run.live(before + (8 if asked.small else 200))  # the random steps, and the recording

        def turn() -> dict[str, float]:
            taken = finished(lambda: run.live(updates))
            return {"learning": seeds * updates / taken, "updating": seeds * updates / run.parts["updating"]}

        return turn

    return {f"{name}, {seeds} {'seeds' if seeds > 1 else 'seed'}": living(own, seeds) for name, own, seeds in cases}


def ppo(asked: Asked) -> Turns:
    """Networks of two layers each; rollouts stay on the CPU."""
    rollout, widths = (16, (64,)) if asked.small else (512, (64, 1_024))
    places = {"cpu, compiled": ("cpu", "on"), "cuda, eager": ("cuda", "off"), "cuda, compiled": ("cuda", "on")}
    if asked.simulated:
        places = {"cuda, eager": ("cuda", "off")}

    def living(device: str, mode: Any) -> Turn:
        own: dict[str, Any] = {"rollout_steps": rollout, "device": device, "compile": mode}
        runs = {f"width {w}": subjects.ppo(hidden=(w, w), **own) for w in widths}
        steps = rollout * PPOSettings(**subjects.LIKE_SB3, env=subjects.CHEETAH).num_envs

        def turn() -> dict[str, float]:
            return {name: steps / finished(lambda run=run: run.live(steps)) for name, run in runs.items()}  # type: ignore[misc]

        return turn

    return {name: living(*place) for name, place in places.items()}


def ppo_stacks(asked: Asked) -> Turns:
    """PPO of several seeds at once on CartPole, three layers of 128: environment steps of all of them."""
    ways = {"cuda, eager": ("cuda", "off"), "cpu, compiled": ("cpu", "on"), "cuda, compiled": ("cuda", "on")}
    if asked.simulated:
        ways = {"cuda, eager": ("cuda", "off")}
    counts = (1, 8) if asked.small else (1, 8, 64)

    def living(device: str, mode: Any, seeds: int) -> Turn:
        own: dict[str, Any] = {"rollout_steps": 32, "epochs": 1} if asked.small else {}
        stack = {"seeds": tuple(range(seeds))} if seeds > 1 else {}
        run = subjects.cartpole(128, device=device, compile=mode, threads=asked.threads, **own, **stack)
        steps = int(own.get("rollout_steps", PPOSettings(**GYM_CONTROL).rollout_steps))

        def turn() -> dict[str, float]:
            return {"in all": seeds * steps / finished(lambda: run.live(steps))}

        return turn

    return {
        f"{seeds} {'seeds' if seeds > 1 else 'seed'}, {name}": living(*way, seeds)
        for seeds in counts
        for name, way in ways.items()
    }


def ppo_images(asked: Asked) -> Turns:
    """PPO, eight copies, ten epochs of minibatches of 64, compiled: images of 64 × 64 × 3 and the Nature DQN's
    convolutions, and MinAtar's Breakout with its own."""
    if "Shown-v0" not in gym.registry:
        gym.register("Shown-v0", Shown)
    rollout = 4 if asked.small else 128
    epochs, batch = (1, 8) if asked.small else (10, 64)
    rules: dict[str, Any] = {"rollout_steps": rollout, "epochs": epochs, "minibatch_size": batch}
    places = {"cpu, compiled": ("cpu", "on"), "cuda, eager": ("cuda", "off"), "cuda, compiled": ("cuda", "on")}
    if asked.simulated:
        places = {"cuda, eager": ("cuda", "off")}

    def living(device: str, mode: Any) -> Turn:
        own = {
            **rules,
            "device": device,
            "compile": mode,
            "hidden": None,
            "share_value": None,
            "threads": asked.threads,
        }
        envs = {"Nature": "Shown-v0", "MinAtar": "minatar:breakout"}
        runs = {name: subjects.ppo(env, **own) for name, env in envs.items()}
        steps = 8 * rollout

        def turn() -> dict[str, float]:
            return {name: steps / finished(partial(run.live, steps)) for name, run in runs.items()}

        return turn

    return {name: living(*place) for name, place in places.items()}


def dqn_minatar(asked: Asked) -> Turns:
    """DQN on MinAtar's Breakout as published (RMSprop, batch 32, a gradient step every step), 4 copies."""
    updates, before = (8, 16) if asked.small else (400, 1_000)
    ways: dict[str, dict[str, Any]] = {
        "cpu, compiled": {"device": "cpu", "compile": "on"},
        "cuda, eager": {"device": "cuda", "capture": False},
        "cuda, recorded": {"device": "cuda"},
    }
    if asked.simulated:
        ways = {name: own for name, own in ways.items() if name == "cuda, eager"}

    def living(own: dict[str, Any]) -> Turn:
        rules: dict[str, Any] = {"optimizer": "rmsprop", "num_envs": 4, "replay_ratio": 1.0, "learning_starts": before}
        run = subjects.dqn(asked.threads, wait=True, **{"env": "minatar:breakout", **rules, **own})
        run.live(before + (8 if asked.small else 200))  # the random steps, and compiling or the recording

        def turn() -> dict[str, float]:
            taken = finished(lambda: run.live(updates))
            return {"learning": updates / taken, "updating": updates / run.parts["updating"]}

        return turn

    return {name: living(own) for name, own in ways.items()}


def classifiers(asked: Asked) -> Turns:
    """Five seeds of an MLP as one stack, and one ResNet-18, batches of 16 and 128, on images of random bytes."""
    places = {"cpu, compiled": ("cpu", True), "cuda, eager": ("cuda", False), "cuda, compiled": ("cuda", True)}
    if asked.simulated:
        places = {"cuda, eager": ("cuda", False)}

    def learning(device: str, compiled: bool) -> Turn:
        stack = subjects.Stacked(compiled, device=device)
        updates = {"MLP, 5 seeds": (stack, 4 if asked.small else 400)}
        if device == "cuda":
            deep = {"network": "resnet18", "batch_size": 8 if asked.small else 128, "width": 4 if asked.small else 64}
            updates["ResNet-18"] = subjects.Stacked(compiled, (0,), device=device, **deep), 2 if asked.small else 50

        def turn() -> dict[str, float]:
            return {name: n / finished(partial(each, n)) for name, (each, n) in updates.items()}

        return turn

    return {name: learning(*place) for name, place in places.items()}


def interventions(asked: Asked) -> Turns:
    """Memory is what an application takes at its peak beyond what was there before."""
    learner = subjects.vgg("cuda", *((8, 16) if asked.small else (256, 25_600)))
    state = {key: value.clone() for key, value in learner.module.state_dict().items()}
    calls: dict[str, Callable[[], object]] = {"a pass of gradients": lambda: subjects.gradients_of_pass(learner)}
    calls |= {name: subjects.application(learner, name) for name in ("dash", "fire", "snp", "reset", "redo")}

    def turn(call: Callable[[], object]) -> dict[str, float]:
        learner.module.load_state_dict(state)
        if asked.simulated:
            return {"s": finished(call)}
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        taken = finished(call)
        return {"s": taken, "peak MB": (torch.cuda.max_memory_allocated() - before) / 1e6}

    return {name: partial(turn, call) for name, call in calls.items()}


def gpt(asked: Asked) -> Turns:
    o = Size(1, 16, 2, 256, 8, 2, 1) if asked.small else SIZES["124M, of a GPU"]
    found: dict[str, Turn] = {}
    for compiled in (False,) if asked.simulated else (False, True):
        ours, theirs = our_turn(o, asked.threads, "cuda", compiled), peer_turn(o, "cuda", compiled)
        for name, call in (("nanoGPT", theirs), ("supple", ours)):
            call()
            way = "compiled" if compiled else "eager"
            found[f"{name}, {way}"] = lambda call=call: {"tokens/s": o.tokens / finished(call)}  # type: ignore[misc]
    return found
