"""Interventions in a loop under DistributedDataParallel: two processes with gloo, each with half of the data."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from supple.engine.hooks.driver import HookDriver
from supple.interventions import learner_for, parse_hook
from supple.metrics import measure

STATISTICS = (  # of data; their means are those of all data at once
    "redo(tau=0.5)@every:3", "regrama(tau=0.8)@every:3", "cbp(replacement_rate=0.1,maturity=2)", "dash@4",
    "snr(eta=0.3,window=5)", "ewc(samples=1000)", "cpr(rate=0.5,period=2)",
)  # fmt: skip
OTHERS = (
    "l2_er(rate=0.1,period=2)", "upgd(sigma=0.1)", "snp@4", "redo(tau=0.5)@when:dormant_fraction>0.2",
    "swap(activation=tanh)@3",
)  # fmt: skip
REFUSED = "swap(activation=prelu)@3"


def train(hook: str, rank: int = 0, world: int = 1) -> Tensor:
    """Train for 8 updates, and return all parameters, and what an intervention keeps of the data."""
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    draws = torch.Generator().manual_seed(5)
    x = torch.randn(8, 16, 4, generator=draws)[:, rank::world]
    y = torch.randint(2, (8, 16), generator=draws)[:, rank::world]
    optimizer, now = torch.optim.Adam(model.parameters(), lr=1e-2), 0
    learner = learner_for(
        model, optimizer, probe=lambda: (x[now],),
        loss=lambda: cross_entropy(model(x[now]), y[now]),
        batches=lambda _: (cross_entropy(model(x[i]), y[i], reduction="none") for i in range(3)), seed=rank,
    )  # fmt: skip
    network = DistributedDataParallel(model) if world > 1 else model  # which takes the weights of the first process
    hooks = HookDriver(list(filter(None, [parse_hook(hook)])), {"model": learner}, lambda **_: None, total=9)
    for now in range(8):
        loss = cross_entropy(network(x[now]), y[now]) + hooks.penalty(learner)
        optimizer.zero_grad()
        loss.backward()
        hooks.before_update(learner)
        optimizer.step()
        hooks.after_update(learner)
        hooks.after_steps(now, now + 1)
        if now == 4:
            hooks.finish_task()
            hooks.after_measurement(5, {f"model/{name}": value for name, value in measure(learner).items()})
    kept = hooks.state_dict()[hook]["intervention"].get("fisher", {}).get("model", {})
    return torch.cat([value.detach().flatten() for value in (*model.parameters(), *kept.values())])


@pytest.mark.slow
def test_all_processes_end_with_the_weights_of_one_that_had_all_data(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, __file__, str(tmp_path), str(rank)]) for rank in (0, 1)]
    assert [process.wait(120) for process in processes] == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert "2 processes would not exchange" in first.pop(REFUSED)
    for hook, weights in first.items():
        assert torch.equal(weights, second[hook]), hook
    for hook in STATISTICS:
        assert torch.allclose(first[hook], train(hook), atol=1e-5), hook


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)  # there are two processes
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/joined", rank=rank, world_size=2)
    found: dict[str, Tensor | str] = {hook: train(hook, rank, 2) for hook in STATISTICS + OTHERS}
    try:
        train(REFUSED, rank, 2)
    except ValueError as error:
        found[REFUSED] = str(error)
    torch.save(found, folder / f"{rank}.pt")
