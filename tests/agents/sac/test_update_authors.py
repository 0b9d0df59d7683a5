"""SimBaV2, FlashSAC and CrossQ beside the authors' own code, on the same weights and batches (see `authors/common.py`).

Float32: the first update. Float64: twenty, in which differences of the first would grow.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.networks import Critics
from supple.agents.sac.update import Transitions
from supple.networks import copy_module_
from supple.networks.batch_norm import BatchNorm
from supple.networks.unit_vectors import project_
from tests.agents.sac.authors import common
from tests.agents.sac.worlds import agent_with

pytestmark = pytest.mark.slow

SETTINGS: dict[str, dict[str, Any]] = {
    "simba_v2": {},
    "flash": {"policy_delay": 2},
    "crossq": {
        "critic_head": "mse",
        "log_std": "clipped",
        "adam_betas": (common.CROSSQ_BETA, 0.999),
    },
}


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


def new(network: str) -> SAC:
    control = Control(common.D, (-1.0,) * common.A, (1.0,) * common.A)
    agent = agent_with(
        control, network=network, atoms=common.ATOMS, value_range=common.RANGE,
        gamma=common.GAMMA, tau=common.TAU, learning_rate=common.RATE, weight_decay=0.0, temperature=common.START,
        target_entropy=common.TARGET, batch_size=common.N, **common.WIDTHS,
        **{"critic_head": "categorical", **SETTINGS[network]},
    )  # fmt: skip
    for module, vectors in ((agent.actor, 1), (agent.critics.net, 2)):
        for name, parameter in module.named_parameters():
            first = common.value_of(name, parameter.detach().numpy(), vectors)
            parameter.data.copy_(torch.from_numpy(first))
        project_(module.modules())
        for part in module.modules():
            if isinstance(part, BatchNorm) and part.renormalize_after is not None:
                part.passes.fill_(common.PASSES)
    if agent.target is not None:
        copy_module_(agent.target, agent.critics)
    if network != "simba_v2":  # the loss of which is ours; the others', half as large, has the steps of twice that ε
        agent.learners["critic"].optimizer.param_groups[0]["eps"] *= 2
    return agent


@pytest.mark.parametrize("network", SETTINGS)
def test_updates_are_those_of_the_authors_code(network: str, dtype: torch.dtype) -> None:
    recorded = json.loads(common.NUMBERS.read_text())[network][str(dtype).removeprefix("torch.")]
    agent, tolerance = new(network), 1e-5 if dtype == torch.float32 else 1e-8
    for number, (batch, losses) in enumerate(zip(common.batches(), recorded["losses"], strict=False)):
        fields = {name: torch.from_numpy(value) for name, value in batch.items()}
        fields = {name: value if value.dtype == torch.bool else value.to(dtype) for name, value in fields.items()}
        noise: Tensor = fields.pop("noise")
        fields["discounts"] = common.GAMMA * (~fields.pop("terminated")).to(dtype)
        agent.soft_update(Transitions(**fields), noise, number=number)
        ours = [agent.soft_update.latest[name].item() for name in ("actor", "critic")]
        assert ours == pytest.approx(losses, rel=tolerance)
    assert agent.temperature.log_alpha.item() == pytest.approx(recorded["log_alpha"], rel=tolerance)
    for name, module in (("actor", agent.actor), ("critic", agent.critics), ("target", agent.target)):
        if module is not None:
            net = module.net if isinstance(module, Critics) else module
            assert {key for key, _ in net.named_parameters()} <= recorded[name].keys()
            values = common.digest({key: net.state_dict()[key].numpy() for key in recorded[name]})
            for key, value in values.items():
                np.testing.assert_allclose(value, recorded[name][key], rtol=0, atol=tolerance, err_msg=f"{name} {key}")
