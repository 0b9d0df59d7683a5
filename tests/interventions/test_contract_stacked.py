"""Injection and reset contracts on what a SAC agent offers: an actor, stacked critics with targets, a temperature."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import (
    EntropyTemperature,
    Injectable,
    Injected,
    Learner,
    ReleasedCode,
    StackedLayerNorm,
    StackedLinear,
    learner_for,
    make,
    parse_call,
    redraw,
    restructure,
    snapshot,
)
from supple.metrics import measure

MEMBERS, START = 2, -4.6


class Net(nn.Module):
    """The critics' whole network: embedding, one residual block, head; (n, 5) → (members, n, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = StackedLinear(MEMBERS, 5, 8)
        self.block = nn.Sequential(
            StackedLayerNorm(MEMBERS, 8), StackedLinear(MEMBERS, 8, 32), nn.ReLU(), StackedLinear(MEMBERS, 32, 8)
        )
        self.norm = StackedLayerNorm(MEMBERS, 8)
        self.head = StackedLinear(MEMBERS, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        return self.head(self.norm(x + self.block(x)))


class Critics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        return self.net(torch.cat([observations, actions], -1)).squeeze(-1)


class Temperature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(START))

    def forward(self) -> Tensor:
        return self.log_alpha.exp()


def batch() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    return torch.randn(16, 3, generator=source), torch.randn(16, 2, generator=source)


MEMORY = batch()


def build() -> dict[str, Learner]:
    """A SAC-like agent at step 0; all three with optimizers of their own, as in SimBa's released code."""
    torch.manual_seed(0)
    alpha, critics = Temperature(), Critics()
    actor = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    temperature = Learner(
        "temperature", alpha, torch.optim.AdamW(alpha.parameters(), lr=1e-2, weight_decay=0.0), (), (),
        probe=lambda: None, loss=alpha, generator=torch.Generator(), redraw=dict,
    )  # fmt: skip
    learners = {
        "actor": learner_for(
            actor, torch.optim.AdamW(actor.parameters(), lr=1e-2), probe=lambda: MEMORY[:1],
            loss=lambda: (actor(MEMORY[0]) - 1).square().mean(), name="actor",
        ),
        "critic": learner_for(
            critics, torch.optim.AdamW(critics.parameters(), lr=1e-2), probe=lambda: MEMORY,
            loss=lambda: (critics(*MEMORY) - 1).square().mean(1).sum(), name="critic",
            followers=(copy.deepcopy(critics).requires_grad_(False),), capabilities=(Injectable("net"),),
        ),
    }  # fmt: skip
    for learner in learners.values():
        learner.offer(ReleasedCode("sac"))
        learner.offer(EntropyTemperature(temperature))
    return learners


def train(*learners: Learner, steps: int = 3) -> None:
    for learner in learners * steps:
        learner.optimizer.zero_grad()
        learner.loss().backward()
        learner.optimizer.step()


def agent() -> dict[str, Learner]:
    """Trained, with a target network that lags behind."""
    learners = build()
    train(*learners.values(), learners["actor"].offers(EntropyTemperature).learner)
    (target,) = learners["critic"].followers
    target.load_state_dict(learners["critic"].module.state_dict())
    train(*learners.values())
    return learners


def critic() -> Learner:
    return agent()["critic"]


@torch.no_grad()
def outputs(learner: Learner) -> list[Tensor]:
    return [module(*MEMORY) for module in (learner.module, *learner.followers)]


def slots(learner: Learner) -> dict[str, dict[str, Tensor]]:
    named = {p: n for n, p in learner.module.named_parameters()}
    return {named[p]: {k: v.clone() for k, v in s.items()} for p, s in learner.optimizer.state.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def is_zero(state: dict[str, Tensor]) -> bool:
    return bool(state) and not any(bool(value.any()) for value in state.values())


# -- plasticity injection into the whole critic --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("toward", ["initial", "fresh"])
def test_the_whole_critic_is_injected_again_and_again_without_a_change_of_its_values(toward):
    learner = critic()
    for _ in range(3):
        before = outputs(learner)[0]
        make("injection", toward=toward).apply(learner)
        assert torch.equal(outputs(learner)[0], before)
        train(learner)
        assert not torch.equal(outputs(learner)[0], before)
    assert isinstance(learner.module.net.old.old, Injected)
    new = snapshot(learner.module.net.new)
    train(learner, steps=1)
    moved = snapshot(learner.module.net.new)
    assert not any(torch.equal(new[name], moved[name]) for name in new)  # all of it learns, and nothing else
    assert {p for p in learner.module.parameters() if p.requires_grad} == set(learner.module.net.new.parameters())


def test_uniform_makes_the_target_critics_the_online_ones():
    learner = critic()
    make("injection").apply(learner)
    assert same(dict(learner.followers[0].state_dict()), dict(learner.module.state_dict()))
    assert torch.equal(*outputs(learner))
    assert not any(p.requires_grad for p in learner.followers[0].parameters())


def test_as_released_keeps_the_outputs_of_the_target_network():
    learner = critic()
    learner.offer(ReleasedCode("dqn"))  # the one algorithm with a released injection
    online, target = outputs(learner)
    assert not torch.equal(online, target)
    make("injection", contract="as_released").apply(learner)
    for now, before in zip(outputs(learner), (online, target), strict=True):
        assert torch.equal(now, before)
    with pytest.raises(ValueError, match="no released code applies injection here"):
        make("injection", contract="as_released").attach(critic())


@pytest.mark.slow
def test_later_interventions_and_metrics_act_on_the_live_critic():
    learner = critic()
    names = measure(learner, per_layer=True).keys()
    make("injection", toward="fresh").apply(learner)
    train(learner)
    assert measure(learner, per_layer=True).keys() == names
    live = ["net.new.embed", "net.new.block.1", "net.new.block.3", "net.new.head"]
    assert [layer.name for layer in learner.layers] == live
    assert learner.is_stacked("net.new.block.2")
    frozen = {name: value for name, value in snapshot(learner.module).items() if not name.startswith("net.new.")}

    assert make("fire", method="polar").apply(learner) == [f"{name}.weight" for name in live]
    assert measure(learner)["dfi_unscaled"] < 1e-9
    train(learner)
    with torch.no_grad():
        learner.module.net.new.block[1].bias[0, ::2] = -100.0
    before = outputs(learner)[0]
    written = make("redo", tau=0.0).apply(learner)
    assert written == [f"net.new.{name}" for name in ("block.1.weight", "block.1.bias", "block.3.weight")]
    torch.testing.assert_close(outputs(learner)[0], before, rtol=0, atol=1e-6)
    assert make("reset", what="head").apply(learner) == ["net.new.head.weight", "net.new.head.bias"]
    now = snapshot(learner.module)
    assert torch.equal(now["net.new.head.weight"], now["net.twin.head.weight"])
    assert all(torch.equal(now[name], value) for name, value in frozen.items())
    train(learner)


# -- reset contracts, cell by cell ---------------------------------------------------------------------------

HOOKS = [("fire", {}), ("snp", {}), ("reset", {}), ("reset", {"toward": "fresh"})]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), HOOKS, ids=str)
def test_as_released_resets_all_optimizers_target_and_temperature(name, params):
    learners = agent()
    temperature, memory = learners["actor"].offers(EntropyTemperature).learner, [x.clone() for x in MEMORY]
    assert float(temperature.module.log_alpha.detach()) != START
    objects = [temperature.module.log_alpha, *(p for x in learners.values() for p in x.module.parameters())]
    for learner in (*learners.values(), temperature):
        objects += [value for state in learner.optimizer.state.values() for value in state.values()]
    held = [(id(v), v.data_ptr()) for v in objects]
    for learner in learners.values():
        assert make(name, contract="as_released", **params).apply(learner)
        assert all(is_zero(state) for state in slots(learner).values())  # biases and norms too
        assert slots(learner).keys() == dict(learner.module.named_parameters()).keys()
        assert float(temperature.module.log_alpha.detach()) == pytest.approx(START)
        assert is_zero(slots(temperature)["log_alpha"])
    (target,) = learners["critic"].followers
    assert same(snapshot(target), snapshot(learners["critic"].module))
    assert all(torch.equal(a, b) for a, b in zip(MEMORY, memory, strict=True))
    assert [(id(v), v.data_ptr()) for v in objects] == held


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), HOOKS, ids=str)
def test_uniform_zeroes_what_was_written_copies_to_the_target_and_keeps_the_temperature(name, params):
    learners = agent()
    temperature, memory = learners["actor"].offers(EntropyTemperature).learner, [x.clone() for x in MEMORY]
    alpha, alpha_slots = snapshot(temperature.module), slots(temperature)
    for learner in learners.values():
        before = slots(learner)
        written = make(name, **params).apply(learner)
        for parameter, state in slots(learner).items():
            assert is_zero(state) if parameter in written else same(state, before[parameter]), parameter
    assert same(snapshot(temperature.module), alpha)
    assert same(slots(temperature)["log_alpha"], alpha_slots["log_alpha"])
    (target,) = learners["critic"].followers
    assert same(snapshot(target), snapshot(learners["critic"].module))
    assert all(torch.equal(a, b) for a, b in zip(MEMORY, memory, strict=True))


@pytest.mark.slow
def test_a_fresh_reset_gives_online_and_target_critics_one_new_draw_for_each_member():
    learner = critic()
    draws: list[dict[str, Tensor]] = []
    learner = replace(learner, redraw=lambda: draws.append(redraw(learner.module)) or draws[-1])
    make("reset", toward="fresh", contract="as_released").apply(learner)
    assert len(draws) == 1
    assert same(snapshot(learner.module), draws[0])
    assert same(snapshot(learner.followers[0]), draws[0])
    assert not torch.equal(draws[0]["net.head.weight"][0], draws[0]["net.head.weight"][1])


@pytest.mark.slow
def test_a_checkpoint_of_injected_critics_continues_bit_for_bit():
    learner, rebuilt = critic(), build()["critic"]
    texts = ["injection", "injection(toward=fresh)"]
    for text in texts:
        make(parse_call(text).name, **parse_call(text).params).apply(learner)
        train(learner)
    restructure(rebuilt, texts)
    rebuilt.module.load_state_dict(learner.module.state_dict())
    rebuilt.optimizer.load_state_dict(copy.deepcopy(learner.optimizer.state_dict()))
    for one in (learner, rebuilt):
        train(one)
    assert torch.equal(outputs(learner)[0], outputs(rebuilt)[0])
