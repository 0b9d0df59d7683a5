"""Train classifiers: the older spelling of `supple train vision`.

supple vision permuted-mnist --activation relu --seeds 0-4 --out runs/p
"""

from collections.abc import Sequence

from supple.scripts import train
from supple.scripts.cli.console import explain, run
from supple.scripts.cli.options import resumed


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        explain(__doc__, "supple vision", "supple vision BENCHMARK")
    else:
        train.main(args if resumed(args) is not None else ["vision", *args])


if __name__ == "__main__":
    run(main)
