"""SimBa-SAC in eager PyTorch as people write it, nothing of supple's in it; a contestant of `sac_speed`.

Two critic modules and two targets, `nn.Linear` and `nn.LayerNorm`, AdamW with its defaults, `loss.backward()` through
the critics, the targets by a loop over parameters: Stable-Baselines3's and CleanRL's way of doing it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(F.relu(self.wide(self.norm(x))))


class SimBa(nn.Module):
    def __init__(self, d_in: int, width: int, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Linear(d_in, width)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.blocks(self.embed(x)))


class Policy(nn.Module):
    def __init__(self, observation: int, action: int) -> None:
        super().__init__()
        self.body = SimBa(observation, 128, 1)
        self.mean = nn.Linear(128, action)
        self.log_std = nn.Linear(128, action)

    def forward(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(observations)
        std = (-10 + 6 * (1 + torch.tanh(self.log_std(features)))).exp()
        gaussian = torch.distributions.Normal(self.mean(features), std)
        u = gaussian.mean + gaussian.stddev * noise
        log_prob = gaussian.log_prob(u) - 2 * (math.log(2) - u - F.softplus(-2 * u))
        return torch.tanh(u), log_prob.sum(-1)


class Critic(nn.Module):
    def __init__(self, observation: int, action: int) -> None:
        super().__init__()
        self.body = SimBa(observation + action, 512, 2)
        self.head = nn.Linear(512, 1)

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        return self.head(self.body(torch.cat([observations, actions], -1))).squeeze(-1)


class PlainUpdate:
    """A call takes one gradient step: actor → temperature → critics → targets."""

    def __init__(self, actor: dict[str, Tensor], critics: list[dict[str, Tensor]], temperature: float) -> None:
        """Start from these state dictionaries, the critics' also for the targets."""
        action, _ = actor["mean.weight"].shape
        observation = actor["body.embed.weight"].shape[1]
        self.actor = Policy(observation, action)
        self.actor.load_state_dict(actor)
        self.q1, self.q2, self.target1, self.target2 = (Critic(observation, action) for _ in range(4))
        for critic, values in zip((self.q1, self.q2, self.target1, self.target2), 2 * critics, strict=True):
            critic.load_state_dict(values)
        self.log_alpha = torch.tensor(math.log(temperature), requires_grad=True)
        self.target_entropy = -0.5 * action
        self.actor_optimizer = torch.optim.AdamW(self.actor.parameters(), 1e-4, weight_decay=0.01)
        both = [*self.q1.parameters(), *self.q2.parameters()]
        self.critic_optimizer = torch.optim.AdamW(both, 1e-4, weight_decay=0.01)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], 1e-4)

    def __call__(self, batch: tuple[Tensor, ...], noise: Tensor) -> Tensor:
        states, actions, rewards, discounts, next_states = batch
        chosen, log_prob = self.actor(states, noise[:, 0])
        value = torch.min(self.q1(states, chosen), self.q2(states, chosen))
        actor_loss = (self.log_alpha.exp().detach() * log_prob - value).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        entropy = -log_prob.detach().mean()
        alpha_loss = self.log_alpha.exp() * (entropy - self.target_entropy)
        self.alpha_optimizer.zero_grad()
        alpha_loss.backward()
        self.alpha_optimizer.step()

        with torch.no_grad():
            next_actions, next_log_prob = self.actor(next_states, noise[:, 1])
            next_value = torch.min(self.target1(next_states, next_actions), self.target2(next_states, next_actions))
            next_value = next_value - self.log_alpha.exp() * next_log_prob
            wanted = rewards + discounts * next_value
        value1, value2 = self.q1(states, actions), self.q2(states, actions)
        critic_loss = F.mse_loss(value1, wanted) + F.mse_loss(value2, wanted)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        with torch.no_grad():
            for critic, target in ((self.q1, self.target1), (self.q2, self.target2)):
                for parameter, slow in zip(critic.parameters(), target.parameters(), strict=True):
                    slow.mul_(0.995).add_(parameter, alpha=0.005)
            mean = 0.5 * (value1.mean() + value2.mean())
            return torch.stack([actor_loss, critic_loss, entropy, mean, self.log_alpha.exp()])
