"""supple vision: train classifiers through the changing tasks of a benchmark, many seeds at once.

supple vision permuted-mnist --activation relu --seeds 0 1 2 3 4 --out runs/p
supple vision random-label-mnist --activation "leaky_relu(negative_slope=0.8)" --seeds 0 1 2 3 4 --out runs/r
supple vision warm-start --data DIR --hook fire@task --out runs/w
supple vision --resume runs/p
"""

from collections.abc import Sequence

import tyro

from supple.experiments.errors import UsageError
from supple.registry import did_you_mean
from supple.scripts.console import Options, Resume, finish, parse, run, typed, warn
from supple.tracks.vision.benchmarks import BENCHMARKS, Benchmark
from supple.tracks.vision.runs import create, train
from supple.tracks.vision.settings import VisionSettings


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        width = max(map(len, BENCHMARKS))
        lines = [f"  {name:{width}}  {benchmark.about}" for name, benchmark in BENCHMARKS.items()]
        print("\n".join([(__doc__ or "").strip(), "", "benchmarks:", *lines]))
        return
    if any(a == "--resume" or a.startswith("--resume=") for a in args):
        path = parse(Resume, None, args, "supple vision", "Go on with a run.").resume
        finish(path, train)
        return
    name, benchmark = benchmark_of(args, "vision")
    default = Options(settings=VisionSettings(**benchmark.settings), out=tyro.MISSING)
    options = parse(Options, VisionSettings, args[1:], f"supple vision {name}", benchmark.about, default)
    create(options.out, options.settings, typed("supple vision", args), warn)
    finish(options.out, train)


def benchmark_of(args: Sequence[str], command: str) -> tuple[str, Benchmark]:
    """The benchmark that a command line names first. Raises UsageError if it names none."""
    name = args[0] if args and not args[0].startswith("-") else ""
    if name not in BENCHMARKS:
        what = f"unknown benchmark {name!r}{did_you_mean(name, BENCHMARKS)}" if name else "which benchmark?"
        raise UsageError(f"{what} (`supple {command} BENCHMARK …`; benchmarks: {', '.join(BENCHMARKS)})")
    return name, BENCHMARKS[name]


if __name__ == "__main__":
    run(main)
