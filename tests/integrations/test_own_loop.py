"""The loop of docs/howto/trainers.md: it runs as printed, and its hooks act."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

PAGE = Path(__file__).parents[2] / "docs/howto/trainers.md"


def test_the_loop_of_the_page_runs_as_printed() -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[-1]
    torch.manual_seed(0)
    agent = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    events: list[dict[str, Any]] = []

    class Batch:
        observations = torch.randn(16, 4)

    names: dict[str, Any] = {
        "agent": agent, "optimizer": torch.optim.Adam(agent.parameters()), "batch": Batch, "total": 10,
        "loss_of": lambda batch: agent(batch.observations).square().mean(),
        "print_event": lambda **fields: events.append(fields),
    }  # fmt: skip
    exec(code, names)
    assert [(event["hook"], event["step"]) for event in events] == [("fire@0.5", 5)]
