"""Learners of Stable-Baselines3 models: their parameters, layers, wiring and losses."""

import copy
from typing import Any

import gymnasium as gym
import pytest
import torch
from torch import nn

sb3 = pytest.importorskip("stable_baselines3")

from gymnasium import spaces  # noqa: E402
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3  # noqa: E402
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from supple.agents.sb3 import SuppleCallback, learners_of  # noqa: E402
from supple.interventions import EntropyTemperature, Learner, Wiring  # noqa: E402
from supple.metrics import cheap_metrics, measure  # noqa: E402
from supple.networks.linear_pairs import find_joints  # noqa: E402
from tests.integrations.sb3.twins import env_for, small  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [PPO, A2C, DQN, SAC, TD3, DDPG])
def test_every_trained_parameter_belongs_to_one_learner_with_its_optimizer(kind: Any) -> None:
    model = small(kind)
    learners = learners_of(model)
    targets = {id(p) for each in learners.values() for f in each.followers for p in f.parameters()}
    mine = [id(p) for each in learners.values() for p in each.module.parameters()]
    assert len(mine) == len(set(mine))
    assert set(mine) == {id(p) for p in model.policy.parameters()} - targets
    for each in learners.values():
        stepped = {id(p) for group in each.optimizer.param_groups for p in group["params"]}
        assert stepped == {id(p) for p in each.module.parameters()}
    model.policy = torch.compile(model.policy)
    assert [each.layers for each in learners_of(model).values()] == [each.layers for each in learners.values()]


def test_heads_and_critics_side_by_side_share_a_depth() -> None:
    actor, critic = learners_of(small(SAC)).values()
    assert [(x.name, x.role, x.depth) for x in actor.layers] == [
        ("latent_pi.0", "encoder", 0),
        ("latent_pi.2", "hidden", 1),
        ("mu", "head", 2),
        ("log_std", "head", 2),
    ]
    assert actor.wiring["latent_pi.3"] == Wiring(("latent_pi.2",), ("mu", "log_std"))
    assert [x.depth for x in critic.layers] == [0, 0, 1, 1, 2, 2]
    assert critic.wiring["qf1.1"] == Wiring(("qf1.0",), ("qf1.2",))


def test_a_shared_encoder_of_images_feeds_both_heads_and_separate_ones_their_own() -> None:
    env = env_for("PPO", "CnnPolicy", spaces.Discrete(2))
    settings = {"policy": "CnnPolicy", "n_steps": 8, "batch_size": 8}
    shared = learners_of(small(PPO, env, policy_kwargs={"net_arch": []}, **settings))["policy"]
    assert shared.wiring["features_extractor.linear.1"].outgoing == ("action_net", "value_net")
    assert [x.role for x in shared.layers] == ["encoder", "hidden", "hidden", "hidden", "head", "head"]
    separate = {"net_arch": {"pi": [4], "vf": [4, 4]}, "share_features_extractor": False}
    policy = learners_of(small(PPO, env, policy_kwargs=separate, **settings))["policy"]
    assert [x.name for x in policy.select("encoder")] == ["features_extractor.cnn.0", "vf_features_extractor.cnn.0"]
    assert policy.wiring["vf_features_extractor.linear.1"].outgoing == ("mlp_extractor.value_net.0",)


def test_parts_of_a_dictionary_extractor_lie_side_by_side() -> None:
    env = env_for("DQN", "MultiInputPolicy", spaces.Discrete(2))
    q = learners_of(small(DQN, env, policy="MultiInputPolicy"))["q"]
    assert q.layers[0].name == "features_extractor.extractors.image.cnn.0"
    assert q.wiring["features_extractor.extractors.image.linear.1"].outgoing == ("q_net.0",)


def metrics_of(learner: Learner, needs: tuple[str, ...] | None = None) -> set[str]:
    """Return the metrics of a learner before `mark`. Behind tanh, as in PPO and A2C, there are no linear pairs."""
    return {
        name
        for name, metric in cheap_metrics().items()
        if (needs is None or metric.needs in needs)
        and metric.needs not in ("marked", "policy", "values")
        and (metric.needs != "pairs" or learner.linear_pairs())
    }


@pytest.mark.parametrize("kind", [PPO, A2C, DQN, SAC, TD3])
def test_everything_can_be_measured(kind: Any) -> None:
    for learner in learners_of(small(kind).learn(64)).values():
        values = measure(learner)
        assert values.keys() == metrics_of(learner)
        assert values["gradient_norm"] > 0
        assert measure(learner) == values


class Normalized(FlattenExtractor):
    """With running statistics, which every pass in training mode moves."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self.norm = torch.nn.BatchNorm1d(self.features_dim)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.norm(super().forward(observations))


@pytest.mark.parametrize("kind", [PPO, SAC, TD3])
def test_measuring_leaves_running_statistics_of_all_networks_alone(kind: Any) -> None:
    model = small(kind, policy_kwargs={"features_extractor_class": Normalized}).learn(64)
    model.policy.train()
    before = copy.deepcopy(model.policy.state_dict())
    for learner in learners_of(model).values():
        learner.loss()
        measure(learner)
    torch.testing.assert_close(model.policy.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [PPO, A2C, DQN, SAC, TD3])
def test_before_any_data_only_weights_are_measured(kind: Any) -> None:
    for learner in learners_of(small(kind)).values():
        assert learner.probe() is None
        assert measure(learner).keys() == metrics_of(learner, needs=("weights", "matrices", "pairs"))


def logged(model: Any, *arguments: Any) -> dict[str, float]:
    """Return what SB3's update logs, with a learning rate of 0 and the random numbers that a probe would draw."""
    model.lr_schedule = lambda _: 0.0
    model.train(*arguments)
    return model.logger.name_to_value


def without_noise(self: Any, shape: Any = ()) -> torch.Tensor:
    return self.loc + 0.5 * self.scale


@pytest.mark.parametrize("settings", [{}, {"clip_range_vf": 0.1}])
def test_loss_of_ppo_is_that_of_its_own_update(settings: dict) -> None:
    model = small(PPO, n_steps=256, batch_size=256, **settings).learn(256)
    loss = learners_of(model)["policy"].loss().item()
    assert loss == pytest.approx(logged(model)["train/loss"], rel=1e-4)


def test_loss_of_a2c_is_that_of_its_own_update() -> None:
    model = small(A2C, n_steps=64, ent_coef=0.1).learn(64)
    loss = learners_of(model)["policy"].loss().item()
    own = logged(model)
    parts = own["train/policy_loss"] + 0.1 * own["train/entropy_loss"] + 0.5 * own["train/value_loss"]
    assert loss == pytest.approx(parts, rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"n_steps": 3}])
def test_loss_of_dqn_is_that_of_its_own_update(settings: dict) -> None:
    model = small(DQN, **settings).learn(64)
    loss = learners_of(model)["q"].loss().item()
    assert loss == pytest.approx(logged(model, 1, 256)["train/loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "settings"), [(SAC, {}), (SAC, {"ent_coef": 0.3}), (TD3, {"policy_delay": 1}), (DDPG, {})]
)
def test_losses_of_actor_and_critic_are_those_of_their_own_update(
    kind: Any, settings: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributions.Normal, "rsample", without_noise)
    model = small(kind, **settings).learn(64)
    learners = learners_of(model)
    losses = [learners[name].loss().item() for name in ("actor", "critic")]
    own = logged(model, 1, 256)
    assert losses == pytest.approx([own["train/actor_loss"], own["train/critic_loss"]], rel=1e-4)


def test_the_probe_is_normalised_as_training_sees_it() -> None:
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = small(SAC, env).learn(64)
    observations, _ = learners_of(model)["actor"].probe()
    raw = torch.as_tensor(model.replay_buffer.observations[:64, 0])
    seen = torch.as_tensor(env.normalize_obs(raw.numpy()))
    assert all((row - seen).abs().sum(1).min() < 1e-5 for row in observations)


def test_the_rollout_is_the_same_before_and_after_sb3_flattens_it() -> None:
    model = small(PPO, DummyVecEnv([lambda: gym.make("CartPole-v1")] * 3))
    seen = []

    class Look(SuppleCallback):
        def _on_rollout_end(self) -> None:
            seen.append(self.learners["policy"].probe()[0])

    model.learn(96, callback=Look())
    assert torch.equal(seen[-1], learners_of(model)["policy"].probe()[0])


def test_a_fresh_draw_is_one_that_sb3_would_begin_with() -> None:
    model = small(PPO)
    learner = learners_of(model)["policy"]
    state = torch.get_rng_state()
    first, second = learner.redraw(), learner.redraw()
    assert torch.equal(torch.get_rng_state(), state)
    assert first.keys() == learner.initial.keys()
    weight = first["mlp_extractor.policy_net.2.weight"]
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(8))  # orthogonal, gain √2: SB3's, not torch's default
    assert not torch.equal(weight, second["mlp_extractor.policy_net.2.weight"])


def test_what_is_written_to_the_temperature_reaches_sac_and_its_optimizer() -> None:
    model = small(SAC, ent_coef="auto_0.2").learn(32)
    temperature = learners_of(model)["actor"].offers(EntropyTemperature).learner
    ((_, log_alpha),) = temperature.module.named_parameters()
    assert log_alpha is model.log_ent_coef
    assert log_alpha in temperature.optimizer.state
    assert learners_of(small(SAC, ent_coef=0.2))["critic"].offers(EntropyTemperature) is None


def test_state_dependent_noise_is_measured_and_put_back() -> None:
    model = small(SAC, use_sde=True).learn(32)
    noise = model.actor.action_dist.exploration_mat
    assert all(measure(each).keys() == metrics_of(each) for each in learners_of(model).values())
    assert model.actor.action_dist.exploration_mat is noise


def test_models_that_cannot_be_read_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="does not support object: use PPO"):
        learners_of(object())  # type: ignore[arg-type]
    env = env_for("PPO", "CnnPolicy", spaces.Box(-1, 1, (2,)))
    model = small(SAC, env, policy="CnnPolicy", policy_kwargs={"share_features_extractor": True})
    with pytest.raises(ValueError, match="share a features extractor"):
        learners_of(model)


class Functional(BaseFeaturesExtractor):
    """Activations are functions, and then one module for two layers."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space, 6)
        self.first, self.second, self.third = nn.Linear(space.shape[0], 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.act = nn.ReLU()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.act(self.third(self.act(self.second(torch.relu(self.first(observations))))))


@pytest.mark.parametrize("kind", [PPO, A2C, DQN, SAC, TD3, DDPG])
def test_extractors_with_functional_and_shared_activations_are_measured_and_recycled(kind: Any) -> None:
    model = small(kind, policy_kwargs={"features_extractor_class": Functional})
    callback = SuppleCallback(["redo(tau=0.1)@0.5"], measure_every=16)
    model.learn(64, callback=callback)
    assert callback.events
    for learner in callback.learners.values():
        units = ("features_extractor.F.relu", "features_extractor.act", "features_extractor.act#2")
        assert learner.units[:3] == units
        assert {"features_extractor.first", "features_extractor.second"} <= {
            joint.first for joint in find_joints(learner.module, learner.wiring)
        }
