"""The loop of docs/howto/torchrl.md in TorchRL: it runs as printed, and a killed run resumes to the same result."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torchrl")

from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import GymEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

PAGE = Path(__file__).parents[1] / "docs/howto/torchrl.md"
FRAMES, BATCHES, EPOCHS, MINIBATCH = 32, 4, 2, 16
PRINTED = "l2_init(strength=1e-3)"
UPDATES = FRAMES * BATCHES * EPOCHS // MINIBATCH


pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning:torchrl"),
]


class Killed(Exception):
    pass


def train(
    folder: Path, hook: str = PRINTED, seed: int = 0, killed_at: int | None = None
) -> tuple[list[Tensor], list[tuple[str, str, int]]]:
    """Run the page's loop on CartPole to its end, or to the update in which it is killed.

    hook: instead of the page's second one. seed: of the weights that it is built with."""
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    torch.manual_seed(seed)
    networks = {
        name: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, out))
        for name, out in (("actor", 2), ("critic", 1))
    }
    actor = ProbabilisticActor(
        TensorDictModule(networks["actor"], in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True,
    )  # fmt: skip
    critic = ValueOperator(networks["critic"], in_keys=["observation"])
    loss_module = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3)
    events: list[tuple[str, str, int]] = []

    def print_event(**fields: Any) -> None:
        events.append((fields["hook"], fields["learner"], fields["step"]))

    def step(*_: Any) -> None:
        if names["progress"]["updates"] + 1 == killed_at:
            raise Killed

    optimizer.register_step_post_hook(step)
    names: dict[str, Any] = {
        "torch": torch, "networks": networks, "loss_module": loss_module, "optimizer": optimizer, "folder": folder,
        "collector": Collector(
            GymEnv("CartPole-v1"), actor, frames_per_batch=FRAMES, total_frames=FRAMES * BATCHES,
            auto_register_policy_transforms=False,
        ),
        "advantage": GAE(gamma=0.99, lmbda=0.95, value_network=critic), "epochs": EPOCHS, "minibatch": MINIBATCH,
        "total_updates": UPDATES, "print_event": print_event,
    }  # fmt: skip
    try:
        assert PRINTED in code
        exec(code.replace(PRINTED, hook), names)
    except Killed:
        names["collector"].shutdown()
    return [parameter.detach() for net in networks.values() for parameter in net.parameters()], events


@pytest.mark.parametrize(
    ("killed_at", "hook"),
    [(UPDATES // 4 + 2, PRINTED), (3 * UPDATES // 4 + 2, "upgd(sigma=0.01)")],  # upgd remembers and draws
)
def test_the_loop_of_the_page_resumed_from_its_checkpoint_gives_the_same_bytes(
    tmp_path: Path, killed_at: int, hook: str
) -> None:
    whole, events = train(tmp_path / "whole", hook)
    _, before = train(tmp_path / "killed", hook, killed_at=killed_at)
    again, after = train(tmp_path / "killed", hook, seed=1)
    assert all(torch.equal(*pair) for pair in zip(whole, again, strict=True))
    assert events == before + after == [("fire@0.5", name, UPDATES // 2) for name in ("actor", "critic")]


def test_the_penalty_is_part_of_the_loss(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, strong = nn.Linear(4, 8).weight, "l2_init(strength=1000)"
    held, free = (train(tmp_path / hook, hook)[0][0] for hook in (strong, PRINTED))
    assert (held - first).norm() < (free - first).norm()
