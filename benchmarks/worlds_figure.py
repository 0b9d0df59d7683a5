"""Can the network not learn any more, or does the policy not try? One figure of a comparison on a changing world.

supple compare ppo --preset gym-control-small --seeds 0-3 --trainability-every 4000 --out runs/decide
python benchmarks/worlds_figure.py runs/decide docs/images/what-decides.png
"""

import sys
from pathlib import Path

from supple.experiments.history.collect import load
from supple.reports.figures.diagnostics import metrics_over_time

WANTED = ("trainability", "entropy", "dormant_fraction", "weight_norm")


if __name__ == "__main__":
    plot = next(iter(metrics_over_time(load(Path(sys.argv[1])), WANTED)), None)
    assert plot is not None, "nothing was measured there"
    plot.figure.savefig(sys.argv[2])
