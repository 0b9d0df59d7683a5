"""Balance a language model (sib). For the kinds pretrain, sft, clip and continual, the same as `supple train`.

supple language pretrain --preset warm-start-gpt-small --hook "fire(steps=5)@task" --out runs/g
supple language sib --model smollm2 --retain gsm8k.jsonl --out runs/balanced
"""

from collections.abc import Sequence

from supple.scripts import train
from supple.scripts.cli.console import explain, run


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        explain(__doc__, "supple language", "supple language sib")
    elif args[0] == "sib":
        from supple.scripts.sib import main as balance

        balance(args[1:])
    else:
        train.main(args)


if __name__ == "__main__":
    run(main)
