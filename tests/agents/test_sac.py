"""SAC's act, remember and update, interventions on the real agent, and its state, in a world made here."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from supple.agents import replay
from supple.agents.runs import create
from supple.agents.sac import SAC, Control
from supple.agents.sac_settings import SACSettings
from supple.envs import StepResult
from supple.experiments.errors import RunError, UsageError
from supple.experiments.hooks import HookDriver
from supple.interventions import Hook, Intervention, Learner, make, parse_call
from supple.metrics import measure
from supple.networks.wiring import LINEAR

D, A = 5, 2
CONTROL = Control(D, (-1.0, -0.5), (1.0, 2.0))
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)


def agent_with(control: Control = CONTROL, **changes: Any) -> SAC:
    values: dict[str, Any] = {
        "env": "a", "steps": 10_000, "num_envs": 2, "action_repeat": 1, "replay_ratio": 1.0, "batch_size": 8,
        "replay_size": 400, "learning_starts": 10, "actor_width": 8, "critic_width": 8, "critic_blocks": 1,
        "hidden": (8, 8), "learning_rate": 1e-3, "device": "cpu", "compile": "off", **changes,
    }  # fmt: skip
    return SAC(SACSettings(**values), {"a": control})


def world(num_envs: int = 2, seed: int = 0, dtype: type = np.float64) -> Iterator[StepResult]:
    """Random observations far from zero and rewards, in which episodes end one way or the other."""
    rng = np.random.default_rng(seed)

    def observations() -> np.ndarray:
        return (100 + rng.normal(size=(num_envs, D)) * [0.1, 1, 2, 3, 4]).astype(dtype)

    while True:
        terminated, truncated = rng.random(num_envs) < 0.1, rng.random(num_envs) < 0.1
        final = observations()
        obs = np.where((terminated | truncated)[:, None], observations(), final)
        yield StepResult(obs, rng.normal(size=num_envs), terminated, truncated, final, [])


def begun(agent: SAC, seed: int = 0) -> Iterator[StepResult]:
    steps = world(agent.settings.num_envs, seed)
    agent.begin_episodes(next(steps).obs)
    return steps


def live(agent: SAC, steps: Iterator[StepResult], count: int, hooks: HookDriver = NO_HOOKS) -> None:
    for _ in range(count):
        agent.act()
        agent.remember(next(steps))
        agent.update(hooks, last=False)


def everything(agent: SAC) -> dict[str, Tensor]:
    """Copies of all that training goes on from but the memory."""
    found = {}
    for name, learner in agent._all_learners().items():
        for i, module in enumerate((learner.module, *learner.followers)):
            found |= {f"{name}/{i}/{key}": p.detach().clone() for key, p in module.named_parameters()}
        assert learner.optimizer is not None
        for i, slots in learner.optimizer.state_dict()["state"].items():
            found |= {f"{name}/slot {i}/{key}": value.clone() for key, value in slots.items()}
        found[f"{name}/generator"] = learner.generator.get_state()
    found |= {f"generator/{name}": random.get_state() for name, random in agent._generators().items()}
    found |= {"mean": torch.tensor(agent.statistics.mean), "variance": torch.tensor(agent.statistics.variance)}
    return found | {"sums": agent.sums.clone(), "global": torch.get_rng_state()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    assert before.keys() == after.keys()
    return [name for name, value in before.items() if not torch.equal(value, after[name])]


# -- acting ------------------------------------------------------------------------------------------------


def test_actions_are_random_until_learning_starts_and_then_the_policys() -> None:
    agent = agent_with(learning_starts=6, replay_ratio=0.01)
    steps = begun(agent)
    for decision in range(0, 12, 2):
        again = torch.Generator()
        again.set_state(agent.exploration.get_state())
        agent.act()
        if decision < 6:
            wanted = 2 * torch.rand(2, A, generator=again) - 1
        else:
            states = agent._normalize(torch.from_numpy(agent.current).float())
            wanted = agent.actor.sample(states, torch.randn(2, A, generator=again))[0]
        np.testing.assert_array_equal(agent.actions, wanted.detach().numpy())
        agent.remember(next(steps))
        agent.update(NO_HOOKS, last=False)


def test_random_actions_fill_the_whole_box() -> None:
    agent = agent_with(learning_starts=10_000)
    begun(agent)
    actions = np.concatenate([agent.act() for _ in range(1_000)])
    np.testing.assert_allclose(actions.mean(0), [0.0, 0.75], atol=0.08)
    np.testing.assert_allclose(actions.min(0), [-1.0, -0.5], atol=0.01)
    np.testing.assert_allclose(actions.max(0), [1.0, 2.0], atol=0.01)


@settings(max_examples=60, deadline=None)
@given(bounds=st.lists(st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 2).map(sorted), min_size=1, max_size=4))
def test_actions_stay_in_the_box_to_the_last_bit(bounds: list[tuple[float, float]]) -> None:
    """A saturated tanh is ±1: that is a bound of the box, which rounding must not pass."""
    box = gym.spaces.Box(*(np.array(bound, np.float32) for bound in zip(*bounds, strict=True)))
    agent = agent_with(Control(D, tuple(map(float, box.low)), tuple(map(float, box.high))))
    for value in (-1.0, -0.3, 0.0, 0.9999999, 1.0):
        action = agent.to_bounds(np.full((1, len(bounds)), value, np.float32))[0]
        assert action.dtype == np.float32
        assert box.contains(action)
        wanted = box.low.astype(np.float64) + 0.5 * (value + 1) * (box.high.astype(np.float64) - box.low)
        np.testing.assert_allclose(action, wanted, rtol=1e-5, atol=1e-5 * np.abs([box.low, box.high]).max())


def test_evaluation_is_deterministic_and_leaves_no_trace() -> None:
    agent = agent_with(activation="rand_smooth_leaky")
    steps = begun(agent)
    live(agent, steps, 20)
    before = everything(agent)
    observations = 3 * next(steps).obs
    with agent.greedy("a") as policy:
        actions = policy(observations)
        np.testing.assert_array_equal(actions, policy(observations))
        mean = agent.actor(agent._normalize(torch.from_numpy(observations).float()))[0]
        np.testing.assert_array_equal(actions, agent.to_bounds(torch.tanh(mean).detach().numpy()))
    assert agent.actor.training
    assert changed(before, everything(agent)) == []


# -- observations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_statistics_are_those_of_all_observations_acted_on_in_float64(num_envs: int, dtype: type) -> None:
    agent = agent_with(num_envs=num_envs, learning_starts=10_000)
    steps = world(num_envs, dtype=dtype)
    agent.begin_episodes(next(steps).obs)
    seen = []
    for _ in range(400):
        seen.append(agent.current)
        live(agent, steps, 1)
    every = np.concatenate(seen).astype(np.float64)
    assert agent.statistics.mean.dtype == agent.statistics.variance.dtype == np.float64
    # the prior of weight 1e-4 at 0, which SimBa's has too, counts for 1e-4·100²/n in the variance
    np.testing.assert_allclose(agent.statistics.mean, every.mean(0), rtol=1e-6)
    prior = 1e-4 * (1 + every.mean(0) ** 2) / len(every)
    np.testing.assert_allclose(agent.statistics.variance, every.var(0) + prior, rtol=1e-4)
    wanted = (every[:5] - agent.statistics.mean) / np.sqrt(agent.statistics.variance + 1e-8)
    np.testing.assert_allclose(agent._normalize(torch.from_numpy(every[:5]).float()), wanted, atol=2e-3)


def test_memory_keeps_raw_observations_which_are_normalised_as_they_are_sampled() -> None:
    agent = agent_with(learning_starts=10_000)
    steps = begun(agent)
    live(agent, steps, 50)
    sample = agent.memory.sample(64, torch.Generator().manual_seed(0))
    assert float(sample.frames[:, 0].min()) > 50
    for _ in range(2):
        batch = agent._transitions(sample)
        deviation = np.sqrt(agent.statistics.variance + 1e-8)
        wanted = (sample.frames[:, 0].double().numpy() - agent.statistics.mean) / deviation
        np.testing.assert_allclose(batch.states, wanted, atol=2e-3)
        live(agent, steps, 20)  # by later statistics from then on


def test_without_normalisation_networks_see_what_the_environment_shows() -> None:
    agent = agent_with(normalize_observations=False)
    steps = begun(agent)
    live(agent, steps, 20)
    x = torch.randn(3, D)
    assert torch.equal(agent._normalize(x), x)
    agent.load_state_dict(saved(agent))
    assert torch.equal(agent._normalize(x), x)


def test_truncated_transitions_bootstrap_from_the_true_last_observation_terminated_ones_do_not() -> None:
    agent = agent_with(learning_starts=10_000)
    steps = begun(agent)
    wanted: dict[bytes, tuple[bool, bytes]] = {}
    for _ in range(60):
        state = agent.current.astype(np.float32)
        agent.act()
        result = next(steps)
        agent.remember(result)
        for e in range(2):
            wanted[state[e].tobytes()] = bool(result.terminated[e]), result.final_obs[e].astype(np.float32).tobytes()
    sample = agent.memory.sample(300, torch.Generator().manual_seed(0))
    for frames, terminated in zip(sample.frames, sample.terminated, strict=True):
        ended, final = wanted[frames[0].numpy().tobytes()]
        assert bool(terminated) == ended
        assert ended or frames[1].numpy().tobytes() == final
    assert 0 < int(sample.terminated.sum()) < 300


# -- learning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("ratio", [0.3, 0.5, 1.0, 2.0, 3.0])
def test_replay_ratio_is_gradient_steps_per_decision(ratio: float, num_envs: int) -> None:
    agent = agent_with(num_envs=num_envs, replay_ratio=ratio, learning_starts=6)
    steps = begun(agent)
    for decided in range(num_envs, 46, num_envs):
        live(agent, steps, 1)
        assert agent.taken == int(round(ratio * max(0, decided - 6), 6))
    for learner in agent._all_learners().values():
        assert learner.optimizer is not None
        counts = {int(slots["step"]) for slots in learner.optimizer.state.values()}
        assert counts == {agent.taken}


def test_nothing_is_learned_before_learning_starts() -> None:
    agent = agent_with(learning_starts=20)
    steps, before = begun(agent), [p.detach().clone() for p in agent.critics.parameters()]
    live(agent, steps, 10)
    assert all(torch.equal(a, b) for a, b in zip(before, agent.critics.parameters(), strict=True))
    live(agent, steps, 1)
    assert not any(torch.equal(a, b) for a, b in zip(before, agent.critics.parameters(), strict=True))


@pytest.mark.parametrize("network", ["simba", "mlp"])
@pytest.mark.parametrize("activation", ["relu", "rand_smooth_leaky"])
def test_measuring_both_learners_changes_nothing_in_training(network: str, activation: str) -> None:
    ends = []
    for measured in (False, True):
        agent = agent_with(network=network, activation=activation)
        torch.manual_seed(0)
        steps = begun(agent)
        for _ in range(6):
            live(agent, steps, 3)
            if measured:
                for learner in agent.learners.values():
                    values = measure(learner, per_layer=True)
                    assert values
                    assert all(np.isfinite(value) for value in values.values())
        ends.append(everything(agent))
    assert changed(*ends) == []


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    agent = agent_with()
    steps = begun(agent)
    live(agent, steps, 10)
    agent.numbers()
    with torch.no_grad():
        next(agent.critics.parameters()).fill_(float("nan"))
    live(agent, steps, 1)
    with pytest.raises(RunError, match="diverged"):
        agent.numbers()


def test_numbers_are_means_since_the_last_call() -> None:
    agent = agent_with(replay_ratio=2.0)
    steps = begun(agent)
    live(agent, steps, 10)
    assert agent.numbers()["updates"] == 20
    assert agent.numbers() == {"replay/size": 20.0}  # nothing was learned in between
    live(agent, steps, 2)
    found = agent.numbers()
    assert found["updates"] == 8
    assert found["temperature"] == pytest.approx(float(agent.temperature().detach()), rel=0.02)


# -- what cannot work --------------------------------------------------------------------------------------


class Strange(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


class Unbounded(Strange):
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class HalfBounded(Strange):
    action_space = gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32))


class Images(Strange):
    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)


class Bytes(Strange):
    observation_space = gym.spaces.Box(0, 255, (128,), np.uint8)


class Wider(Strange):
    action_space = gym.spaces.Box(-2, 2, (2,), np.float32)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    kinds = (Strange, Unbounded, HalfBounded, Images, Bytes, Wider)
    for kind in kinds:
        gym.register(f"{kind.__name__}-v0", kind)
    yield
    for kind in kinds:
        del gym.registry[f"{kind.__name__}-v0"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unbounded actions": ({"env": "Unbounded-v0"}, "Unbounded-v0: SAC needs actions with bounds, not Box"),
    "half-bounded actions": ({"env": "HalfBounded-v0"}, "SAC needs actions with bounds"),
    "images": ({"env": "Images-v0"}, "needs vectors of real numbers as observations, not Box"),
    "bytes": ({"env": "Bytes-v0"}, "needs vectors of real numbers as observations, not Box"),
    "discrete actions": ({"env": "CartPole-v1"}, "needs vectors of real numbers as actions, not Discrete"),
    "another size in a sequence": (
        {"env": None, "steps": None, "sequence": "Strange-v0,Pendulum-v1", "steps_per_task": 1_000},
        "SAC has one network for all tasks, but Strange-v0 is",
    ),
    "other bounds in a sequence": (
        {"env": None, "steps": None, "sequence": "Strange-v0,Wider-v0", "steps_per_task": 1_000},
        "SAC has one network for all tasks, but Strange-v0 is",
    ),
    "nothing left to learn in": (
        {"learning_starts": 500, "action_repeat": 2}, "--learning-starts 500 leaves none of the 500 decisions"),
    "no whole decision": ({"action_repeat": 3, "num_envs": 2}, "--steps 1000 is no multiple of 6, the steps of one"),
    "no whole vector step": ({"num_envs": 3}, "--steps 1000 is no multiple of --num-envs 3"),
    "no repeat": ({"action_repeat": 0}, "--action-repeat must be a positive number, got 0"),
    "no gradient step": ({"replay_ratio": 0.0}, "--replay-ratio must be a positive number, got 0"),
    "a batch larger than the memory": ({"replay_size": 100}, "--replay-size 100 holds less than one batch of 256"),
    "no temperature": ({"temperature": 0.0}, "--temperature must be a positive number"),
    "a discount above 1": ({"gamma": 1.5}, "--gamma must lie in [0, 1], got 1.5"),
    "no layers": ({"hidden": ()}, "--hidden must be a positive number"),
    "an unknown activation": ({"activation": "relo"}, "relo"),
    "no GPU": ({"device": "cuda"}, "--device cuda: PyTorch finds no CUDA GPU here"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_told_in_one_line(case: str, tmp_path: Path) -> None:
    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is one")
    changes, line = WRONG[case]
    values = {"env": "Pendulum-v1", "steps": 1_000, "action_repeat": 1, "learning_starts": 100, "replay_size": 1_000}
    with pytest.raises(UsageError) as error:
        create(tmp_path / "run", "sac", SACSettings(**{**values, "device": "cpu", **changes}), "")
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_memory_that_does_not_fit_is_refused_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_free_memory", lambda: 1_000_000)
    with pytest.raises(UsageError, match=r"^replay of 1,000,000 transitions needs .*, but 1 MB of memory is free"):
        create(tmp_path / "run", "sac", SACSettings(env="Pendulum-v1", steps=20_000, device="cpu", compile="off"), "")


# -- interventions on the agent ----------------------------------------------------------------------------


def apply(agent: SAC, text: str, contract: str = "uniform", *names: str) -> dict[str, list[str]]:
    """Apply one intervention to the learners of these names (default: all that it concerns)."""
    call = parse_call(text)
    params = {**call.params, **({"contract": contract} if contract != "uniform" else {})}
    written = {}
    for learner in agent.learners.values():
        intervention = make(call.name, **params)
        if intervention.concerns(learner) and learner.name in (names or agent.learners):
            intervention.attach(learner)
            written[learner.name] = intervention.apply(learner)
    return written


def trained(**changes: Any) -> tuple[SAC, Iterator[StepResult]]:
    agent = agent_with(**changes)
    steps = begun(agent)
    live(agent, steps, 30)
    return agent, steps


def slots_of(learner: Learner) -> dict[str, dict[str, Tensor]]:
    assert learner.optimizer is not None
    return {name: learner.optimizer.state[p] for name, p in learner.module.named_parameters() if p.requires_grad}


def is_zero(slots: dict[str, Tensor]) -> bool:
    return bool(slots) and not any(bool(value.any()) for value in slots.values())


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "reset(what=head)"])
def test_what_an_intervention_resets_is_the_contracts_table(name: str, contract: str) -> None:
    agent, _ = trained()
    before, memory = everything(agent), [agent.memory.frames.copy(), agent.memory.action.copy()]
    written = apply(agent, name, contract)
    after = everything(agent)
    different = changed(before, after)
    for learner in agent.learners.values():
        found = slots_of(learner)
        if contract == "uniform":
            assert {key for key, slots in found.items() if is_zero(slots)} == set(written[learner.name])
        else:
            assert all(map(is_zero, found.values()))
    for target, online in zip(agent.target.parameters(), agent.critics.parameters(), strict=True):
        assert torch.equal(target, online)
    of_temperature = [key for key in different if key.startswith("temperature/")]
    if contract == "uniform":
        assert of_temperature == []
    else:
        assert float(agent.temperature().detach()) == pytest.approx(0.01)
        assert len(of_temperature) == 4  # its value, two moments, its count of steps
        assert all(map(is_zero, slots_of(agent.soft_update.temperature).values()))
    # replay, statistics, random generators, sums for the log: kept
    assert all(key.split("/")[0] in ("actor", "critic", "temperature") for key in different)
    assert not any("generator" in key for key in different)
    np.testing.assert_array_equal(memory[0], agent.memory.frames)
    np.testing.assert_array_equal(memory[1], agent.memory.action)


@pytest.mark.parametrize("network", ["simba", "mlp"])
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_fire_makes_every_linear_an_isometry_and_leaves_biases_and_norms(network: str, contract: str) -> None:
    agent, steps = trained(network=network)
    before = everything(agent)
    written = apply(agent, "fire(method=polar)", contract)
    after = everything(agent)
    for learner in agent.learners.values():
        linears = {f"{n}.weight": m for n, m in learner.module.named_modules() if isinstance(m, LINEAR)}
        assert set(written[learner.name]) == set(linears)
        for name, module in linears.items():
            weight = module.get_parameter("weight").detach()
            values = torch.linalg.svdvals(weight)
            scale = (weight.shape[-2] / weight.shape[-1]) ** 0.5
            torch.testing.assert_close(values, torch.full_like(values, scale), msg=name)
        kept = [name for name in learner.initial if name not in linears]
        assert kept
        assert [name for name in kept if f"{learner.name}/0/{name}" in changed(before, after)] == []
    live(agent, steps, 5)
    agent.numbers()


def test_fire_on_one_learner_leaves_the_other_alone() -> None:
    agent, _ = trained()
    before = everything(agent)
    apply(agent, "fire", "uniform", "critic")
    assert {key.split("/")[0] for key in changed(before, everything(agent))} == {"critic"}


def test_a_full_reset_as_released_leads_back_to_step_0() -> None:
    agent, steps = trained()
    fresh = agent_with()
    apply(agent, "reset", "as_released")
    for ours, theirs in ((agent.actor, fresh.actor), (agent.critics, fresh.critics), (agent.target, fresh.target)):
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    live(agent, steps, 5)
    agent.numbers()


def test_a_fresh_reset_draws_other_networks_by_the_agents_own_initialisation() -> None:
    agent, _ = trained()
    apply(agent, "reset(toward=fresh)")
    embed, start = agent.critics.net.body.embed.weight, agent.learners["critic"].initial["net.body.embed.weight"]
    assert not torch.allclose(embed, start, atol=1e-2)
    gram = embed @ embed.mT if embed.shape[1] <= embed.shape[2] else embed.mT @ embed
    torch.testing.assert_close(gram, torch.eye(gram.shape[-1]).expand_as(gram), atol=1e-5, rtol=0)
    assert not agent.critics.net.head.bias.any()


def test_interventions_have_their_place_before_the_first_step_too() -> None:
    agent = agent_with()
    for name in ("fire", "snp", "reset", "injection"):
        apply(agent, name)
    live(agent, begun(agent), 20)
    assert agent.numbers()["updates"] == agent.taken > 0


# -- injection ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["simba", "mlp"])
def test_injection_leaves_values_exactly_as_they_were_and_training_goes_on(network: str) -> None:
    agent, steps = trained(network=network)
    states, actions = torch.randn(50, D), torch.rand(50, A) * 2 - 1
    with torch.no_grad():
        values = agent.critics(states, actions)
        assert apply(agent, "injection").keys() == {"critic"}
        assert torch.equal(agent.critics(states, actions), values)
        assert torch.equal(agent.target(states, actions), values)  # uniform: the target is the online network
    frozen = {name: p.detach().clone() for name, p in agent.critics.named_parameters() if not p.requires_grad}
    assert any(name.startswith("net.old.") for name in frozen)
    assert any(name.startswith("net.twin.") for name in frozen)
    live(agent, steps, 20)
    agent.numbers()
    assert not torch.allclose(agent.critics(states, actions), values, atol=1e-3)
    assert all(torch.equal(agent.critics.get_parameter(name), value) for name, value in frozen.items())
    for learner in agent.learners.values():
        assert all(np.isfinite(value) for value in measure(learner, per_layer=True).values())


def test_injection_was_released_for_no_sac() -> None:
    with pytest.raises(ValueError, match="no released code applies injection here; use contract=uniform"):
        apply(agent_with(), "injection", "as_released")


# -- checkpoints -------------------------------------------------------------------------------------------


def saved(agent: SAC) -> dict[str, Any]:
    """The agent's state as a checkpoint would keep it: the rows of the memory as they are now."""
    state = agent.state_dict()
    memory, frozen = state.pop("memory"), []
    for rows in memory["envs"]:
        kept = {name: tensor.clone() for name, tensor in rows.read(rows.first, rows.end).items()}
        shift = rows.first
        read = lambda a, b, kept=kept, shift=shift: {n: t[a - shift : b - shift] for n, t in kept.items()}  # noqa: E731
        frozen.append(replace(rows, read=read))
    return {**copy.deepcopy(state), "memory": {"envs": frozen}}


@pytest.mark.parametrize("network", ["simba", "mlp"])
@pytest.mark.parametrize("changes", [(), ("injection",), ("injection", "injection", "fire", "snp")])
def test_an_agent_goes_on_from_its_state_bit_for_bit(changes: tuple[str, ...], network: str) -> None:
    agent, steps = trained(activation="rand_smooth_leaky", network=network)
    for name in changes:
        apply(agent, name)
        live(agent, steps, 5)
    state, random = saved(agent), torch.get_rng_state()
    other = agent_with(activation="rand_smooth_leaky", network=network)
    other.load_state_dict(state)
    assert other.learners["critic"].changes == [c for c in changes if c == "injection"]

    def go_on(one: SAC) -> tuple[dict[str, Tensor], dict[str, float]]:
        torch.set_rng_state(random)
        live(one, begun(one, seed=9), 10)
        for name in ("redo", "reset(what=head,toward=fresh)", "snp(noise=0.01)"):
            apply(one, name)
        live(one, world(seed=10), 5)
        return everything(one), one.numbers()

    first, second = go_on(agent), go_on(other)
    assert changed(first[0], second[0]) == []
    assert first[1] == second[1]


def test_the_temperature_its_moments_and_the_statistics_belong_to_the_state() -> None:
    agent, _ = trained()
    other = agent_with()
    other.load_state_dict(saved(agent))
    assert changed(everything(agent), everything(other)) == []
    assert float(other.temperature().detach()) != pytest.approx(0.01, abs=1e-6)
    assert torch.equal(other.mean, agent.mean)
    assert torch.equal(other.scale, agent.scale)


def test_hooks_that_follow_updates_or_add_to_losses_take_part_in_every_gradient_step() -> None:
    class Counter(Intervention):
        name = "counter"
        calls = penalties = 0

        def penalty(self, learner: Learner) -> Tensor:
            self.penalties += 1
            return 1e3 * torch.stack([p.square().sum() for p in learner.module.parameters()]).sum()

        def after_update(self, learner: Learner) -> None:
            self.calls += 1

    agent, counter = agent_with(replay_ratio=2.0), Counter()
    hooks = HookDriver([Hook("counter", counter, None)], agent.learners, lambda **_: None, 1)
    live(agent, begun(agent), 15, hooks)
    assert counter.calls == counter.penalties == 2 * agent.taken == 2 * 40  # of actor and critics
