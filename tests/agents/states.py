"""What belongs to the state of an agent, and what a checkpoint has of it."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from supple.agents.draws import sources_of
from supple.interventions import Learner, make, parse_call


def learners_of(agent: Any) -> dict[str, Learner]:
    """Return the learners of an agent, SAC's temperature among them."""
    learners: dict[str, Learner] = agent._all_learners() if hasattr(agent, "_all_learners") else agent.learners
    return learners


def everything(agent: Any) -> dict[str, Tensor]:
    """Return copies of the whole state of training but the memory."""
    found = {}
    for name, learner in learners_of(agent).items():
        for i, module in enumerate((learner.module, *learner.followers)):
            found |= {f"{name}/{i}/{key}": value.detach().clone() for key, value in module.state_dict().items()}
        assert learner.optimizer is not None
        for i, slots in learner.optimizer.state_dict()["state"].items():
            found |= {f"{name}/slot {i}/{key}": value.clone() for key, value in slots.items()}
        for i, random in enumerate((learner.generator, *learner.generators)):
            found[f"{name}/generator {i}"] = random.get_state()
    drawn = agent._generators() | ({"replay": agent.experience.draws} if hasattr(agent, "experience") else {})
    for name, draws in drawn.items():
        found |= {f"generator/{name} {i}": random.get_state() for i, random in enumerate(sources_of(draws))}
    seen = getattr(agent, "inputs", getattr(agent, "normalizers", None))
    for key, statistics in getattr(seen, "statistics", getattr(seen, "observations", {})).items():
        found |= {f"{key} {name}": torch.tensor(value) for name, value in statistics.state_dict().items()}
    if hasattr(agent, "experience"):
        found["sums"] = agent.experience.sums.clone()
    found |= {f"kept {name}": value.clone() for name, value in getattr(agent, "kept", {}).items()}
    return found | {"global": torch.get_rng_state()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    assert before.keys() == after.keys()
    return [name for name, value in before.items() if not torch.equal(value, after[name])]


def saved(agent: Any) -> dict[str, Any]:
    """Return the agent's state as a checkpoint would store it, with the rows of the memory as they are now."""
    state = agent.state_dict()
    if "experience" not in state:
        return copy.deepcopy(state)
    experience = state.pop("experience")
    memory, frozen = experience.pop("memory"), []
    for rows in memory["envs"]:
        kept = {name: tensor.clone() for name, tensor in rows.read(rows.first, rows.end).items()}
        shift = rows.first
        read = lambda a, b, kept=kept, shift=shift: {n: t[a - shift : b - shift] for n, t in kept.items()}  # noqa: E731
        frozen.append(replace(rows, read=read))
    return {**copy.deepcopy(state), "experience": {**copy.deepcopy(experience), "memory": {**memory, "envs": frozen}}}


def apply(agent: Any, text: str, contract: str = "uniform", *names: str) -> dict[str, list[str]]:
    """Apply an intervention to the learners with these names (by default, to all that it supports)."""
    call = parse_call(text)
    params = {**call.params, **({"contract": contract} if contract != "uniform" else {})}
    written = {}
    for learner in agent.learners.values():
        intervention = make(call.name, **params)
        if intervention.concerns(learner) and learner.name in (names or agent.learners):
            intervention.attach(learner)
            written[learner.name] = intervention.apply(learner)
    return written
