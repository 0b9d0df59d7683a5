"""The stack of classifiers and its measurements, interventions on a large network, and MoRAM's pass."""

from collections.abc import Callable
from statistics import median

import floors
import subjects
import torch
from entries import Asked, Turn, Turns
from sides_networks import forward, moram, peft_lora
from timing import matmul_rate, microseconds, seconds, temporary_folder
from torch import nn

from supple.engine.storage.run_directory import RunDirectory
from supple.metrics import METRICS, View, cheap_metrics
from supple.tracks.language.adapters import moram as moram_module


def stack(asked: Asked) -> Turns:
    """Floors: arithmetic at the rate of a 1024³ product, or its products in their shapes; the bytes that Adam must move
    at the rate of a += b on two vectors that take up as much memory together."""
    updates = 5 if asked.small else 300
    stacks = {"eager": subjects.Stacked(False), "compiled": subjects.Stacked(True)}
    layers = floors.mlp(784, (100, 100), 10, len(subjects.SEEDS))
    products = floors.products_of(layers, 16)
    multiply, pair = floors.multiply(products), torch.zeros(2, 2 * floors.parameters(layers))

    def floor() -> dict[str, float]:
        moved = microseconds(lambda: pair[0].add_(pair[1])) * 7 / 6  # Adam: 4 read and 3 written; here 2 × 2 and 2
        return {"loss and gradients": 1e3 * floors.gflop(products) / matmul_rate(repeats=3) * 1e3, "Adam": moved}

    def shapes() -> dict[str, float]:
        return {"loss and gradients": microseconds(multiply)}

    def parts(each: subjects.Stacked) -> Turn:
        each(updates)
        whole = lambda: 1e6 * seconds(lambda: each(updates)) / updates  # noqa: E731
        return lambda: {**each.parts(updates), "an update": whole()}

    return {name: parts(each) for name, each in stacks.items()} | {"floor": floor, "products alone": shapes}


def metrics(asked: Asked) -> Turns:
    """Every metric by itself; what several need, such as the pass over the data, counts in each of them."""
    stack, updates = subjects.Stacked(True), 10 if asked.small else 250
    learner = stack.work.model.learner
    learner.mark()
    run = RunDirectory(temporary_folder(), "")
    run.start_logs({}, 0.0, stack.work.logs)

    def log() -> None:
        for seed, values in zip(subjects.SEEDS, stack.work.measure(costly=False), strict=True):
            run.metrics(stack.step, values, seed=seed)
        run.flush()
        learner.mark()

    def timed(call: Callable[[], object]) -> Turn:
        return lambda: {"ms": 1e3 * seconds(call)}

    cheap = [name for name in cheap_metrics() if f"model/{name}" in stack.work.measure(costly=False)[0]]
    names = [*cheap, *(name for name in METRICS if name not in cheap_metrics())]
    return {
        "1,000 updates": lambda: {"ms": 1e6 * seconds(lambda: stack(updates)) / updates},
        "all cheap metrics of every seed, logged": timed(log),
        **{name: timed(lambda name=name: METRICS[name].value(View(learner))) for name in names},  # type: ignore[misc]
    }


def interventions(asked: Asked) -> Turns:
    learner = subjects.vgg("cpu", batch=32, images=32 if asked.small else 64)
    state = {key: value.clone() for key, value in learner.module.state_dict().items()}
    calls: dict[str, Callable[[], object]] = {"a pass of gradients": lambda: subjects.gradients_of_pass(learner)}
    for name in ("dash", "fire", "snp", "reset", "redo")[asked.small :]:
        calls[name] = subjects.application(learner, name)

    def timed(call: Callable[[], object]) -> dict[str, float]:
        learner.module.load_state_dict(state)
        return {"s": seconds(call)}

    return {name: lambda call=call: timed(call) for name, call in calls.items()}  # type: ignore[misc]


def passes(module: nn.Module, x: torch.Tensor, gather_from: int = moram_module.GATHER_FROM) -> Turn:
    """Return a turn of a pass in evaluation. gather_from: values are gathered from so many atoms for each one kept."""
    run = forward(module, x)

    def turn() -> dict[str, float]:
        kept, moram_module.GATHER_FROM = moram_module.GATHER_FROM, gather_from
        taken = median(seconds(run) for _ in range(3))
        moram_module.GATHER_FROM = kept
        return {"forward": 1e3 * taken}

    return turn


def moram_tasks(asked: Asked) -> Turns:
    """Return turns that pass tokens through a Linear, LoRA, and MoRAM with more and more tasks.

    The floor for n tokens, width d and N atoms, in operations: Linear 2nd²; LoRA of rank r adds 4nrd; MoRAM adds
    2nNd for the keys, and 2nkd (values gathered) or 2nNd (dense). N = 160, r = k = 16: 1.14 or 1.27 × LoRA's.
    """
    linear, x = nn.Linear(1024, 1024), torch.randn(512, 1024)
    counts = (1, 10) if asked.small else (1, 2, 5, 10, 20, 40)
    modules = {"LoRA r=16 (PEFT)": peft_lora(linear), "Linear": linear}
    modules |= {f"{tasks} tasks": moram(linear, tasks) for tasks in counts}
    return {name: passes(module, x) for name, module in modules.items()}


def moram_gathering(asked: Asked) -> Turns:
    turns, x = {}, torch.randn(512, 1024)
    for share in (4,) if asked.small else (2, 3, 4, 6, 10):
        adapter = moram(nn.Linear(1024, 1024), share)
        adapter.linear = nn.Identity()  # type: ignore[assignment]  # the atoms' part alone
        turns[f"{share}, dense"] = passes(adapter, x, 10**9)
        turns[f"{share}, gathered"] = passes(adapter, x, 0)

    def all_of(way: str) -> Turn:
        return lambda: {name.split(",")[0]: turn()["forward"] for name, turn in turns.items() if name.endswith(way)}

    return {way: all_of(way) for way in ("dense", "gathered")}
