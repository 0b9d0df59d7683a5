"""Agents: CleanRL's, which have no `forward`, and the policies of Stable-Baselines3."""

import random
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, rows
from tests.zoo.networks import Made, Subject, network, rows_of, train, zoo

SOME = ("fire", "reset", "snp")
UNITS = ("redo", "cbp")
SIZE = 36  # of pictures, the smallest for Stable-Baselines3's CNN


def layer_init(layer: nn.Module, std: float = 2**0.5, bias: float = 0.0) -> nn.Module:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Continuous(nn.Module):
    """CleanRL's agent for continuous actions."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.Tanh(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.Tanh(),
            layer_init(nn.Linear(WIDTH, 1), std=1.0),
        )  # fmt: skip
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.Tanh(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.Tanh(),
            layer_init(nn.Linear(WIDTH, 2), std=0.01),
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(x)

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        mean = self.actor_mean(x)
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


class Discrete(nn.Module):
    """CleanRL's agent for discrete actions."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.ReLU(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.ReLU(),
            layer_init(nn.Linear(WIDTH, 1), std=1.0),
        )  # fmt: skip
        self.actor = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.ReLU(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.ReLU(),
            layer_init(nn.Linear(WIDTH, 3), std=0.01),
        )  # fmt: skip

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(x)

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class Atari(nn.Module):
    """CleanRL's agent for Atari: a network, an actor and a critic."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            layer_init(nn.Conv2d(2, 4, 3, stride=2)), nn.ReLU(), layer_init(nn.Conv2d(4, 4, 2)), nn.ReLU(),
            nn.Flatten(), layer_init(nn.Linear(16, WIDTH)), nn.ReLU(),
        )  # fmt: skip
        self.actor = layer_init(nn.Linear(WIDTH, 3), std=0.01)
        self.critic = layer_init(nn.Linear(WIDTH, 1), std=1)

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(self.network(x / 255.0))

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


def both_parts(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, Continuous):
        return module.actor_mean(x), module.critic(x)
    hidden = module.network(x / 255.0) if isinstance(module, Atari) else x
    return module.actor(hidden), module.critic(hidden)


AGENT = {"fresh": True, "acts": SOME}
PARTS = {"fresh": True, "acts": SOME + UNITS}


@network("CleanRL's agent for continuous actions, without forward", forward=both_parts, silent=False, **PARTS)
def cleanrl_continuous() -> Made:
    return Continuous(), rows()


@network("the same, called by its method, which draws actions", forward="get_action_and_value", fresh=True, acts=SOME)
def cleanrl_drawing() -> Made:
    return Continuous(), rows()


@network("CleanRL's agent for discrete actions, without forward", forward="get_action_and_value", **AGENT)
def cleanrl_discrete() -> Made:
    return Discrete(), rows(), torch.randint(3, (ROWS,))


@network("CleanRL's agent for Atari, without forward", forward="get_action_and_value", **AGENT)
def cleanrl_atari() -> Made:
    return Atari(), torch.randint(256, (ROWS, 2, 7, 7)).float(), torch.randint(3, (ROWS,))


@network("the agent for discrete actions, by a function that calls its parts", forward=both_parts, **PARTS)
def cleanrl_discrete_parts() -> Made:
    return Discrete(), rows()


@network("the agent for Atari, by a function that calls its parts", forward=both_parts, **PARTS)
def cleanrl_atari_parts() -> Made:
    return Atari(), torch.randint(256, (ROWS, 2, 7, 7)).float()


@network("a dueling Q-network", acts=(*SOME, "redo"))
def dueling() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU())
            self.value = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
            self.advantage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

        def forward(self, x: Tensor) -> Tensor:
            h = self.body(x)
            advantage = self.advantage(h)
            return self.value(h) + advantage - advantage.mean(1, keepdim=True)

    return Net(), rows()


@network("two critics in one module", acts=(*SOME, "redo"))
def twin_critics() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q1, self.q2 = (
                nn.Sequential(nn.Linear(INPUTS + 2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)) for _ in range(2)
            )

        def forward(self, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
            x = torch.cat([x, a], 1)
            return self.q1(x), self.q2(x)

    return Net(), rows(), rows(2)


# -- Stable-Baselines3 -----------------------------------------------------------------------------------------------

BOX = gymnasium.spaces.Box(-1, 1, (INPUTS,), np.float32)
PICTURE = gymnasium.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8)
DICT = gymnasium.spaces.Dict({"vector": BOX, "image": PICTURE})
SMALL = {"features_extractor_kwargs": {"features_dim": 8}}
SB3 = {"fresh": True, "silent": False}


def rate(progress: float) -> float:
    return 1e-3


def picture() -> Tensor:
    return torch.randint(256, (3, 1, SIZE, SIZE), dtype=torch.uint8)


@network("Stable-Baselines3's MlpPolicy of PPO", acts=SOME, **SB3)
def sb3_mlp() -> Made:
    from stable_baselines3.common.policies import ActorCriticPolicy

    return ActorCriticPolicy(BOX, gymnasium.spaces.Box(-1, 1, (2,)), rate, [WIDTH]), rows(), True


@network("Stable-Baselines3's CnnPolicy of PPO: one extractor under three names", acts=SOME, **SB3)
def sb3_cnn() -> Made:
    from stable_baselines3.common.policies import ActorCriticCnnPolicy

    return ActorCriticCnnPolicy(PICTURE, gymnasium.spaces.Discrete(3), rate, **SMALL), picture(), True


@network("Stable-Baselines3's MultiInputPolicy of PPO", acts=SOME, **SB3)
def sb3_dict() -> Made:
    from stable_baselines3.common.policies import MultiInputActorCriticPolicy

    policy = MultiInputActorCriticPolicy(
        DICT, gymnasium.spaces.Discrete(3), rate, [WIDTH], features_extractor_kwargs={"cnn_output_dim": 8}
    )
    return policy, {"vector": rows()[:3], "image": picture()}, True


@network("Stable-Baselines3's Q-network of DQN", acts=SOME, **SB3)
def sb3_dqn() -> Made:
    from stable_baselines3.dqn.policies import DQNPolicy

    return DQNPolicy(BOX, gymnasium.spaces.Discrete(3), rate, [WIDTH, WIDTH]).q_net, rows()


@network("Stable-Baselines3's actor of SAC", acts=SOME, **SB3)
def sb3_actor() -> Made:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(BOX, gymnasium.spaces.Box(-1, 1, (2,)), rate, [WIDTH, WIDTH]).actor, rows(), True


@network("Stable-Baselines3's critic of SAC", acts=SOME, **SB3)
def sb3_critic() -> Made:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(BOX, gymnasium.spaces.Box(-1, 1, (2,)), rate, [WIDTH, WIDTH]).critic, rows(), rows(2)


def of_a_model(name: str, policy: str, env: gymnasium.Env, learner: str) -> Any:
    """Return the learner that the callback would use, of a model that has learned for a few steps."""

    def make() -> Subject:
        import stable_baselines3
        from stable_baselines3.common.base_class import BaseAlgorithm

        from supple.integrations.sb3.learners import learners_of

        settings: dict[str, Any] = {"net_arch": [WIDTH]} | (SMALL if policy == "CnnPolicy" else {})
        more = {"n_steps": 4, "batch_size": 4} if name == "PPO" else {"learning_starts": 4, "buffer_size": 16}
        state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        plain = random.getstate()
        model: BaseAlgorithm = getattr(stable_baselines3, name)(
            policy, env, policy_kwargs=settings, seed=0, device="cpu", **more
        )
        model.learn(8)
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])  # noqa: NPY002
        random.setstate(plain)
        found = learners_of(model)[learner]
        inputs = tuple(found.probe() or ())
        kind = zoo()[f"model_{name.lower()}_{policy[:3].lower()}" + ("_" + learner if name == "SAC" else "")]
        it = Subject(kind, found.module, inputs, found, lambda: found.module(*inputs), lambda: rows_of(
            found.module(*inputs)))  # fmt: skip
        found.mark()
        train(it)
        return it

    return make


class Pictures(gymnasium.Env):
    """Pictures of noise, and no reward."""

    observation_space, action_space = PICTURE, gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.picture(), {}

    def picture(self) -> Any:
        return self.np_random.integers(0, 256, PICTURE.shape, dtype=np.uint8)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.picture(), float(action), False, self.steps > 4, {}


class Vectors(Pictures):
    """Vectors of noise; the reward is the first action."""

    observation_space, action_space = BOX, gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def picture(self) -> Any:
        return self.np_random.uniform(-1, 1, INPUTS).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(float(np.ravel(action)[0]))


class Choices(Vectors):
    """The same with discrete actions."""

    action_space = gymnasium.spaces.Discrete(3)


FROM_A_MODEL = {"acts": SOME, "silent": False, "slow": True}


@network(
    "a PPO model's learner, CnnPolicy", learner=of_a_model("PPO", "CnnPolicy", Pictures(), "policy"), **FROM_A_MODEL
)
def model_ppo_cnn() -> Made:
    raise NotImplementedError


@network(
    "a PPO model's learner, MlpPolicy", learner=of_a_model("PPO", "MlpPolicy", Vectors(), "policy"), **FROM_A_MODEL
)
def model_ppo_mlp() -> Made:
    raise NotImplementedError


@network("a DQN model's learner", learner=of_a_model("DQN", "MlpPolicy", Choices(), "q"), **FROM_A_MODEL)
def model_dqn_mlp() -> Made:
    raise NotImplementedError


@network("a SAC model's actor", learner=of_a_model("SAC", "MlpPolicy", Vectors(), "actor"), **FROM_A_MODEL)
def model_sac_mlp_actor() -> Made:
    raise NotImplementedError


@network("a SAC model's critic", learner=of_a_model("SAC", "MlpPolicy", Vectors(), "critic"), **FROM_A_MODEL)
def model_sac_mlp_critic() -> Made:
    raise NotImplementedError
