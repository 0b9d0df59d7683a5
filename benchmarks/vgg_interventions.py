"""What do interventions cost on a large network? Wall time and peak memory on VGG-16, as in FIRE's Table 1.

    python benchmarks/vgg_interventions.py [--threads 2] [--batch 32] [--images 64] [--rounds 3]
    python benchmarks/vgg_interventions.py --device cuda --batch 256 --images 100_000 --rounds 10

VGG-16 with batch norm, 64×64 images, 200 classes (Tiny-ImageNet's sizes; random pixels, which cost the same), Adam's
state in place, and a tenth of the channels dormant, so that ReDo has something to do. An application is all that a hook
does when it fires: rewrite weights, then zero optimizer state. DASH looks at so many images as are asked for; on a
CPU these are few, and the time of 100,000 (Tiny-ImageNet's training set) is extrapolated. It takes turns with one pass
of the gradients that it needs. ReDo looks at one batch.

Times are medians of the rounds, with the smallest and largest. Memory is what an application takes at its peak beyond
what was there before, each in a process of its own, on two batches: on a CPU resident memory by /proc (Linux), with
every large block given back when it is freed, so that none is used twice unseen; on a GPU what PyTorch allocated.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.table import Table
from timing import Options, Rounds, begin, seconds
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make
from supple.tracks.vision.networks.vgg import VGG16

SHAPE, CLASSES, IMAGES = (3, 64, 64), 200, 100_000  # Tiny-ImageNet
PASS, DASH = "pass", "dash"
METHODS = {"shrink & perturb": "snp", "FIRE": "fire", "full reset": "reset", "ReDo": "redo", "DASH": DASH}
PAPER = {"snp": (0.002, 27), "fire": (0.06, 55), "dash": (69.0, 2834)}  # seconds, MB: Table 1, on a TITAN RTX
SMALL_BLOCKS = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # larger ones come from the system, and go back to it


@dataclass(frozen=True)
class Args(Options):
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = 2  # of PyTorch
    batch: int = 32  # images in a batch of DASH; FIRE's protocols use 256
    images: int = 64  # images of one pass
    rounds: int = 3  # of all methods in turn
    memory_of: str | None = None  # only print the megabytes that this takes: "fire", "dash", … or "pass"


def build(args: Args) -> Learner:
    torch.manual_seed(0)
    network = VGG16(SHAPE, CLASSES).to(args.device)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # makes the state, and changes nothing
    optimizer.zero_grad()
    pixels = torch.randint(256, (args.images, *SHAPE), dtype=torch.uint8).to(args.device)
    labels = torch.randint(CLASSES, (args.images,)).to(args.device)

    def losses(part: slice) -> Tensor:
        return F.cross_entropy(network(pixels[part].float().div_(255)), labels[part], reduction="none")

    def batches(count: int | None) -> Iterator[Tensor]:
        starts = range(0, args.images, args.batch)[slice(count)]
        return (losses(slice(start, start + args.batch)) for start in starts)

    recent = slice(0, args.batch)
    learner = learner_for(
        network,
        optimizer,
        probe=lambda: (pixels[recent].float().div_(255),),
        loss=lambda: losses(recent).mean(),
        batches=batches,
        layers=network.layers(),
        units=network.units(),
    )
    with torch.no_grad():
        for norm in (part for part in network.modules() if isinstance(part, nn.BatchNorm2d)):
            norm.weight[::10] = norm.bias[::10] = 0
    return learner


def one_pass(learner: Learner) -> None:
    """Compute the gradients that DASH needs, and nothing else."""
    named = dict(learner.module.named_parameters())
    parameters = [named[name] for name in learner.parameters_of(learner.layers)]
    for losses in learner.batches(None):
        torch.autograd.grad(losses.mean(), parameters)


def make_applications(learner: Learner, device: str) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name. Each call returns when the device is done."""

    def application(name: str) -> Callable[[], object]:
        intervention = make(name)
        intervention.attach(learner)
        return lambda: intervention.apply(learner)

    def finished(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: (call(), torch.cuda.synchronize() if device == "cuda" else None)

    found = {PASS: lambda: one_pass(learner), **{name: application(name) for name in METHODS.values()}}
    return {name: finished(call) for name, call in found.items()}


def resident_memory(key: Literal["VmRSS", "VmHWM"]) -> float:
    """Return this process's resident memory in MB, now or at its peak."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(key)) / 1e3


def measure_peak(args: Args, name: str) -> float:
    """Return the MB that an application takes at its peak, beyond what was there before."""
    learner = build(replace(args, images=2 * args.batch))
    call = make_applications(learner, args.device)[name]
    state = {key: value.clone() for key, value in learner.module.state_dict().items()}
    call()  # the first one also loads libraries
    learner.module.load_state_dict(state)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident_memory("VmRSS")
    call()
    return resident_memory("VmHWM") - before


def measure_peak_apart(args: Args, name: str) -> float:
    """Return the peak of an application, measured in a process of its own."""
    given = ["--device", args.device, "--threads", str(args.threads), "--batch", str(args.batch)]
    given.append("--flush" if args.flush else "--no-flush")
    command = [sys.executable, __file__, *given, "--memory-of", name]
    found = subprocess.run(command, env=os.environ | SMALL_BLOCKS, stdout=subprocess.PIPE, text=True, check=True)
    return float(found.stdout.split()[-1])


def main(args: Args) -> bool:
    begin(args.threads, args.flush)
    if args.memory_of is not None:
        print(measure_peak(args, args.memory_of))
        return True
    memory = {name: measure_peak_apart(args, name) for name in (PASS, *METHODS.values())}
    learner = build(args)
    calls = make_applications(learner, args.device)
    state = {key: value.clone() for key, value in learner.module.state_dict().items()}
    times: dict[str, Rounds] = {name: Rounds(4) for name in calls}
    for number in range(1 + args.rounds):
        for name, call in calls.items():
            if number == 0 and name in (PASS, DASH):
                continue  # the others' first one is a warm-up; these are long, and ReDo ran the network
            learner.module.load_state_dict(state)
            took = seconds(call)
            if number:
                times[name].values.append(took)

    where = torch.cuda.get_device_name() if args.device == "cuda" else f"{args.threads} threads of a CPU"
    title = f"VGG-16, 64×64, 200 classes, on {where}; batches of {args.batch}, {args.images:,} images a pass"
    table = Table(title=title, caption=f"FIRE, Table 1: on a TITAN RTX. Of {IMAGES:,} images: extrapolated.")
    for column in ("", "seconds: median (min–max)", f"of {IMAGES:,} images", "peak MB", "FIRE's s", "FIRE's MB"):
        table.add_column(column, justify="right" if column else "left")
    for label, name in {**METHODS, "  one pass of gradients": PASS}.items():
        long = f"{times[name].median * IMAGES / args.images:,.0f} s" if name in (PASS, DASH) else ""
        paper = [str(number) for number in PAPER.get(name, ())] or ["", ""]
        table.add_row(label, str(times[name]), long, f"{memory[name]:,.0f}", *paper)
    Console(width=120).print(table)
    # Neighbours in time saw the same machine: their ratio is steadier than either time.
    ratio = median(dash / alone for alone, dash in zip(times[PASS].values, times[DASH].values, strict=True))
    print(f"DASH at most 1.10 × the pass of gradients that it needs: {'yes' if ratio <= 1.1 else 'NO'} ({ratio:.3f})")
    return ratio <= 1.1


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
