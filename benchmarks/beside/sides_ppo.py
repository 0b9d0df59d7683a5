"""PPO by supple, Stable-Baselines3 and SBX, and the loops of CleanRL and LeanRL in our words; SB3's default settings.

The two loops are those of CleanRL's `ppo_continuous_action.py`, without its wrappers that normalise (the others have
none here), and of LeanRL's: the same with policy and loss compiled. LeanRL compiles the advantages too. Here they
are eager, since compiling a loop over 2,048 steps takes minutes.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import subjects
import torch
from stepped import SteppedAgent
from torch import Tensor, nn
from torch.distributions import Normal

from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL
from supple.envs.make import quiet_mujoco

ENVS, ROLLOUT, EPOCHS, BATCH = 8, 2048, 10, 64
STEPS, FEW = ENVS * ROLLOUT, 3_200  # of a turn; of one on CartPole
Side = tuple[Callable[[], object], int]


def supple(threads: int, env: str) -> Side:
    torch.set_num_threads(1)  # more would slow down products this small; `threads` step the physics
    return _stepped(subjects.ppo(env, compile="on", env_threads=threads), STEPS)


def supple_cartpole(threads: int, width: str) -> Side:
    return _stepped(subjects.cartpole(int(width), compile="on", threads=threads), FEW)


def _stepped(run: SteppedAgent, steps: int) -> Side:
    return lambda: run.live(steps), steps


def sb3(threads: int, env: str) -> Side:
    from stable_baselines3 import PPO

    return _baselines(PPO, env)


def sbx(threads: int, env: str) -> Side:
    from sbx import PPO

    return _baselines(PPO, env)


def _baselines(kind: Any, env: str) -> Side:
    """Set the numbers of steps, batches and epochs to SB3's defaults; SBX keeps its own for all else."""
    from stable_baselines3.common.env_util import make_vec_env

    quiet_mujoco()
    made = make_vec_env(env, ENVS, seed=0)
    model = kind("MlpPolicy", made, n_steps=ROLLOUT, batch_size=BATCH, n_epochs=EPOCHS, seed=0, device="cpu")
    return lambda: model.learn(STEPS, reset_num_timesteps=False), STEPS


def sb3_cartpole(threads: int, width: str) -> Side:
    """Set SB3 up with the preset's settings, as far as it has them: it normalises advantages in each minibatch, takes
    GAE's targets for the value, and lets episodes go on between rollouts."""
    from stable_baselines3 import PPO

    s = PPOSettings(**GYM_CONTROL)
    network = {
        "net_arch": {"pi": [int(width)] * 3, "vf": [int(width)] * 3},
        "activation_fn": lambda: torch.nn.LeakyReLU(0.1),
        "ortho_init": False,
    }
    env = gym.make(str(s.env), max_episode_steps=s.max_episode_steps)
    model = PPO(
        "MlpPolicy", env, s.learning_rate, s.rollout_steps, s.minibatch_size, s.epochs, s.gamma, s.gae_lambda,
        ent_coef=s.entropy_coefficient, max_grad_norm=1e9, policy_kwargs=network, seed=0, device="cpu",
    )  # fmt: skip
    return lambda: model.learn(FEW, reset_num_timesteps=False), FEW


def loop(threads: int, env: str, way: str) -> Side:
    """Make CleanRL's loop, or, compiled, LeanRL's."""
    quiet_mujoco()
    return Loop(env, compiled=way == "compiled"), STEPS


class Agent(nn.Module):
    """Two networks of 64-64, and a free log standard deviation."""

    def __init__(self, observation: int, action: int) -> None:
        super().__init__()

        def network(out: int, gain: float) -> nn.Sequential:
            layers = [nn.Linear(observation, 64), nn.Linear(64, 64), nn.Linear(64, out)]
            for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
                nn.init.orthogonal_(layer.weight, scale)
                nn.init.zeros_(layer.bias)
            return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

        self.critic, self.mean = network(1, 1.0), network(action, 0.01)
        self.log_std = nn.Parameter(torch.zeros(1, action))

    def forward(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return actions, their log-probabilities, the entropy and the values."""
        mean = self.mean(x)
        policy = Normal(mean, self.log_std.expand_as(mean).exp(), validate_args=False)
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action).sum(1), policy.entropy().sum(1), self.critic(x).flatten()


class Loop:
    """An iteration of CleanRL's PPO; compiled: of LeanRL's."""

    def __init__(self, env: str, compiled: bool) -> None:
        def make() -> gym.Env:
            return gym.wrappers.ClipAction(gym.wrappers.RecordEpisodeStatistics(gym.make(env)))

        self.envs = gym.vector.SyncVectorEnv([make] * ENVS)
        observations, actions = self.envs.single_observation_space.shape, self.envs.single_action_space.shape
        assert observations is not None
        assert actions is not None
        self.agent = Agent(observations[0], actions[0])
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=3e-4, eps=1e-5)
        self.store = {
            "observations": torch.zeros(ROLLOUT, ENVS, *observations), "actions": torch.zeros(ROLLOUT, ENVS, *actions),
            **{name: torch.zeros(ROLLOUT, ENVS) for name in ("log_probs", "rewards", "ends", "values")},
        }  # fmt: skip
        self.next = torch.as_tensor(self.envs.reset(seed=0)[0], dtype=torch.float32)
        self.ended = torch.zeros(ENVS)
        self.policy: Any = torch.compile(self.agent) if compiled else self.agent
        self.loss: Any = torch.compile(self._loss) if compiled else self._loss

    def __call__(self) -> None:
        store = self.store
        for step in range(ROLLOUT):
            store["observations"][step], store["ends"][step] = self.next, self.ended
            with torch.no_grad():
                action, store["log_probs"][step], _, store["values"][step] = self.policy(self.next)
            store["actions"][step] = action
            observation, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            store["rewards"][step] = torch.as_tensor(reward, dtype=torch.float32)
            self.next = torch.as_tensor(observation, dtype=torch.float32)
            self.ended = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)
        advantages = self._advantages()
        columns = [*store.values(), advantages, advantages + store["values"]]
        batch = dict(zip((*store, "advantages", "returns"), (column.flatten(0, 1) for column in columns), strict=True))
        for _ in range(EPOCHS):
            for rows in torch.randperm(STEPS).split(BATCH):
                loss = self.loss(
                    *(batch[n][rows] for n in ("observations", "actions", "log_probs", "advantages", "returns"))
                )
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), 0.5)
                self.optimizer.step()

    @torch.no_grad()
    def _advantages(self) -> Tensor:
        store = self.store
        advantages, last = torch.zeros(ROLLOUT, ENVS), torch.zeros(ENVS)
        value, going = self.agent(self.next)[3], 1 - self.ended
        for step in reversed(range(ROLLOUT)):
            delta = store["rewards"][step] + 0.99 * value * going - store["values"][step]
            advantages[step] = last = delta + 0.99 * 0.95 * going * last
            value, going = store["values"][step], 1 - store["ends"][step]
        return advantages

    def _loss(self, observations: Tensor, actions: Tensor, old: Tensor, advantages: Tensor, returns: Tensor) -> Tensor:
        _, log_probs, entropy, values = self.agent(observations, actions)
        ratio = (log_probs - old).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy = torch.max(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)).mean()
        return policy + 0.5 * (values - returns).square().mean() - 0.0 * entropy.mean()
