"""Wrong command lines of the kinds of language models and of `supple sib`: one line on stderr, and nothing is made."""

import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from supple.tracks.language.pretrain import work

Ask = Callable[[str, Path], tuple[int, str]]
TINY = (
    "pretrain --first TEXT --tokenizer bytes --layers 1 --width 16 --heads 2 --block-size 8 --batch-size 4 "
    "--micro-batch 2 --warmup 0 --pretrain-steps 4 --steps 2 --device cpu --out OUT"
)
PRETRAIN, COMPARE = f"train {TINY}", f"compare {TINY}"
FORK = f"{COMPARE} --second OTHER"
SFT = "train sft --model llama:32x1 --learn TASK --device cpu --out OUT"
CONTINUAL = "train continual --model llama:32x1 --tasks TASK --device cpu --out OUT"
CLIP = "train clip --device cpu --out OUT"
SIB = "sib --model llama:32x1 --retain TASK --device cpu --out OUT"

WRONG = {
    # kinds of runs
    "sib": None,  # help, not an error
    "train pretran --out OUT": "unknown kind of run 'pretran': did you mean 'pretrain'? (`supple train KIND …`",
    "train --out OUT": "which kind of run? (`supple train KIND …`; kinds: ppo, dqn, sac, vision, pretrain, sft, ",
    "compare sib --out OUT": "unknown kind of run 'sib' (`supple compare KIND …`; kinds: ppo, ",
    "train pretrain --threads 1": "--out is missing",
    f"{PRETRAIN} --preset warm-start": "--preset warm-start: a preset of vision, not of pretrain",
    f"{PRETRAIN} --preset warm-start-gtp": "unknown preset 'warm-start-gtp': did you mean 'warm-start-gpt'?",
    f"{PRETRAIN} --preset moram-small": "--preset moram-small: a preset of continual, not of pretrain",
    # corpora
    "train pretrain --out OUT": "--first is missing: the corpora of the first phase",
    f"{PRETRAIN} --first nowhere.txt": "'nowhere.txt' is no corpus: name brown, kjv, foldoc (`supple fetch NAME`), a t",
    f"{PRETRAIN} --first kjv": "old-testament.txt: no such file: `supple fetch kjv` brings it",
    f"{PRETRAIN} --batch-size 500": "tokens are too few for one batch, which has 500 × 8",
    f"{PRETRAIN} --second TASK --batch-size 100": "tokens are too few for one batch, which has 100 × 8",
    f"{PRETRAIN} --block-size 500": "text.txt, ",  # what it is called, and not only where the cache has its tokens
    f"{PRETRAIN} --first-share 0.001": "3 tokens are too few for a block of 8",
    f"{PRETRAIN} --first-share 0": "--first-share must lie above 0 and be 1 at most, got 0.0",
    f"{PRETRAIN} --tokenizer words": "unknown tokenizer 'words' (known: bytes, bpe:SIZE, or the path of a ",
    f"{PRETRAIN} --tokenizer bpe:10": "bpe:10: a vocabulary has 257 to 65,536 tokens",
    # the network and its training
    f"{PRETRAIN} --heads 3": "gpt: 3 heads cannot share a width of 16",
    f"{PRETRAIN} --activation relo": "unknown activation 'relo': did you mean 'relu'?",
    f"{PRETRAIN} --width 0": "--width must be a positive number, got 0",
    f"{PRETRAIN} --micro-batch 3": "--batch-size 4 must be a multiple of --micro-batch 3",
    f"{PRETRAIN} --learning-rate fast": "--learning-rate: 'fast' is not a number",
    f"{PRETRAIN} --precision half": "--precision: 'half' is not one of 'auto', 'float32', 'bfloat16'",
    f"{PRETRAIN} --clip 0": "--clip must be a positive number, got 0.0",
    f"{PRETRAIN} --dropout 1": "--dropout is a share below 1, got 1.0",
    f"{PRETRAIN} --min-rate nan": "--min-rate must be a finite number, got nan",
    f"{PRETRAIN} --warmup 4": "--warmup 4 must be less than --pretrain-steps 4",
    f"{PRETRAIN} --eval-every -1": "--eval-every must be 0 or more, got -1",
    f"{PRETRAIN} --compile True": "--compile True: torch.compile does not work here",
    f"{PRETRAIN} --hook fire": "'fire' needs a schedule",
    f"{PRETRAIN} --hook fire@task": "never fires: the run has 0 task switches",
    f"{PRETRAIN} --hook 'fire(scope=conv)@2'": "scope 'conv' names no layer of 'model'",
    # starts
    f"{PRETRAIN} --start 2": "--start 2 is where a second phase begins, and there is none: --second CORPUS",
    f"{PRETRAIN} --second OTHER --start best": "--start best is known in comparisons only",
    f"{PRETRAIN} --second OTHER --start ²": "--start must be an update of the first phase or best, got '²'",
    f"{PRETRAIN} --second OTHER --start 9": "can start at update 1 to 4 of the first, not 9",
    f"{PRETRAIN} --keep-at 9": "can start at update 1 to 4 of the first, not 9",
    f"{FORK} --vary start=best,9": "can start at update 1 to 4 of the first, not 9",
    f"{FORK} --start 2 --vary start=3": "--start and --vary start=… both say where second phases begin",
    f"{COMPARE} --vary start=2": "a start (2) needs a second phase: --second CORPUS",
    # arms, variants, seeds
    f"{FORK} --seeds": "--seeds must be different numbers of 0 or more, got ()",
    f"{FORK} --seeds 1 1": "--seeds must be different numbers of 0 or more",
    f"{FORK} --seeds one": "--seeds: 'one' is neither a seed",
    f"{FORK} --seed 3": "--seed 3 is for a single run: a comparison takes --seeds 3",
    f"{FORK} --jobs -1": "--jobs must be 0 (one per core) or more, got -1",
    f"{FORK} --hook fire@task": "--hook is for single runs",
    f"{FORK} --arm fire@3": "--arm: fire@3 never fires: the run starts at step 4",
    f"{COMPARE} --arm fire": "--arm: 'fire' needs a schedule",
    f"{FORK} --arm fire --arm fire": "two arms would share a folder: fire, fire",
    f"{FORK} --arm 'none + fire'": "none cannot be combined",
    f"{FORK} --vary width=16,32": "all arms share the first phase, so what it depends on cannot vary",
    f"{FORK} --vary second=TEXT,OTHER --tokenizer bpe:300": "the tokenizer is trained on all corpora",
    f"{FORK} --vary learning_rate=1e-3,0.001": "a value is given twice",
    f"{FORK} --vary learning_rate=1e-3,fast": "--learning-rate: 'fast' is not a number",
    f"{FORK} --vary learning_rat=1": "unknown setting 'learning_rat': did you mean 'learning_rate'?",
    f"{FORK} --vary clip": "as NAME=VALUE,VALUE",
    f"{FORK} --vary clip=1 --vary clip=2": "expected each setting once",
    f"{COMPARE} --vary 'activation=\"relu'": "no closing quotation",
    f"{COMPARE} --vary 'activation=relu,leaky_relu(slope=0.1)'": "leaky_relu has no parameter 'slope'",
    # models
    f"{SFT} --model ''": "--model is missing: which model is to be fine-tuned",
    f"{SFT} --model nowhere": "no such model: 'nowhere' (a model is a folder in transformers' layout, a .gguf file",
    f"{SFT} --model llama:33x1": "a new model is llama:WIDTHxLAYERS with a width in multiples of 32",
    f"{SFT} --model smollm2": "fetch it with `supple fetch smollm2`",
    f"{CLIP} --model BERT --domains folder:DIR": "is of type 'bert'; tasks of images need a CLIPModel ('clip')",
    f"{CLIP} --model clip:huge": "new models are clip:small or clip:WIDTHxLAYERS",
    # tasks
    f"{SFT} --learn ''": "--learn is missing: what is to be learned",
    f"{SFT} --learn nowhere.jsonl": "no such task: 'nowhere.jsonl' (a task is a JSONL file",
    f"{SFT} --learn EMPTY": "has no examples to learn from",
    f"{SFT} --retain EMPTY": "has no examples to learn from",
    f"{SFT} --learn mcq:TASK": "has no multiple-choice examples to learn from",
    f"{SFT} --learn BROKEN": "broken.jsonl, line 1: no 'answer'",
    f"{SFT} --batch-size 200": "3 epochs of them are less than one batch of 200 (--batch-size)",
    f"{CONTINUAL} --tasks EMPTY": "has no examples to learn from",
    f"{CONTINUAL} --tasks TASK TASK": "--tasks names one twice",
    f"{CONTINUAL} --order 1,0": "--order must have each number from 0 to 0 once",
    f"{CLIP} --domains": "--domains is empty: name the images to learn from",
    f"{CLIP} --domains nothing": "unknown data set 'nothing'",
    f"{CLIP} --batch-size 2": "--batch-size 2 has not one image of each of 6 domains",
    f"{SIB} --retain EMPTY": "has no examples to learn from",
    f"{SIB} --batch-size 16": "has 16 training examples, fewer than 32",
    # fine-tuning, balancing, adapters
    f"{SFT} --micro-batch 3": "--batch-size 16 must be a multiple of --micro-batch 3",
    f"{SFT} --epochs 0": "--epochs must be a positive number, got 0.0",
    f"{SFT} --max-length 1": "--max-length must be 2 or more",
    f"{SFT} --max-length 100000": "are more than the context of llama:32x1, 2048 tokens",
    f"{SFT} --hook sib@task": "never fires",
    f"{SIB} --batches 0": "--batches must be a positive number, got 0",
    f"{SIB} --eigenvalues -1": "--eigenvalues must be 0 or more, got -1",
    f"{SIB} --out .": "--out . already holds other files: choose a new folder",
    f"{CONTINUAL} --targets nothing": "target 'nothing' matches no nn.Linear of LlamaForCausalLM (there are: q_proj, ",
    f"{CONTINUAL} --targets '/(/'": "target '(' is no regular expression",
    f"{CONTINUAL} --targets": "--targets is empty: name layers, or all-linear",
    f"{CONTINUAL} --method lora": "--method: 'lora' is not one of 'moram', 'seqlora'",
    f"{CONTINUAL} --method seqlora --prune 0.9": "--prune goes with --method moram or external-router, not with",
    f"{CONTINUAL} --epochs 1 --updates-per-task 3": "--epochs and --updates-per-task do not go together",
    f"{CONTINUAL} --hook fire@task": "which --method moram freezes: use it with --method full",
}

# What was asked for is possible, and cannot be had: exit code 1.
FAILED = {
    f"{SFT} --model BERT": "not a causal language model that can be read",
    f"{SFT} --model somebody/nothing": "without a network give the path of a folder with its config.json",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the files that names in the command lines stand for; tokens go to a cache beside them."""
    folder = tmp_path_factory.mktemp("files")
    draw = random.Random(0)
    for name in ("text.txt", "other.txt"):
        lines = [" ".join(draw.choices(("ash", "oak", "elm", "fir", "yew"), k=6)) for _ in range(150)]
        (folder / name).write_text("\n".join(lines) + "\n")
    questions = [json.dumps({"prompt": f"{i} + 1?", "answer": str(i + 1)}) for i in range(20)]
    (folder / "task.jsonl").write_text("\n".join(questions))
    (folder / "empty.jsonl").write_text("")
    (folder / "broken.jsonl").write_text('{"prompt": "and?"}\n')
    (folder / "bert").mkdir()
    (folder / "bert/config.json").write_text('{"model_type": "bert"}')
    names = {"TEXT": "text.txt", "OTHER": "other.txt", "TASK": "task.jsonl", "EMPTY": "empty.jsonl"}
    names |= {"BROKEN": "broken.jsonl", "BERT": "bert", "DIR": "bert", "CACHE": "cache"}
    return {name: str(folder / file) for name, file in names.items()}


@pytest.fixture
def ask(ask: Callable[..., tuple[int, str]], files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return `ask(line, out)`: the exit status and stderr of `supple LINE`, with names replaced by files.

    It runs in the folder above `out`, without a compiler and without a network.
    """

    def run_line(line: str, out: Path) -> tuple[int, str]:
        for name, path in {**files, "OUT": str(out)}.items():
            line = line.replace(name, path)
        out.parent.mkdir(exist_ok=True)
        monkeypatch.chdir(out.parent)
        monkeypatch.setenv("SUPPLE_CACHE", files["CACHE"])
        monkeypatch.setattr(work, "can_compile", lambda: False)
        return ask(*shlex.split(line))

    return run_line


@pytest.mark.slow
@pytest.mark.parametrize("line", [*WRONG, *FAILED])
def test_wrong_usage_is_one_line_and_makes_nothing(
    line: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    if line in FAILED:
        import huggingface_hub

        class ConnectError(Exception):
            """An error like that of an HTTP library, which is no OSError."""

        def unreachable(*_: object, **__: object) -> None:
            raise ConnectError("Name or service not known")

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    here = tmp_path / "here"
    here.mkdir()
    if line.endswith("--out ."):
        (here / "notes.txt").write_text("")
    before = list(here.iterdir())
    code, stderr = ask(line, here / "out")
    wanted = {**WRONG, **FAILED}[line]
    if wanted is None:
        assert (code, stderr) == (0, "")
    else:
        assert stderr.startswith("supple: ")
        assert stderr.count("\n") == 1
        assert wanted.replace("OUT", str(here / "out")) in stderr
        assert code == (1 if line in FAILED else 2)
    assert list(here.iterdir()) == before


@pytest.mark.parametrize("kind", [CONTINUAL, CLIP, SFT])
def test_kinds_that_train_in_one_process_refuse_torchrun(
    kind: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, stderr = ask(kind, tmp_path / "here/out")
    assert (code, stderr.count("\n")) == (2, 1)
    assert "start it without torchrun" in stderr


@pytest.mark.slow
def test_a_tokenizer_without_a_chat_template_is_a_warning_in_one_line(tmp_path: Path, ask: Ask) -> None:
    from supple.tracks.language.models import load_model, save_model

    model = load_model("llama:32x1")
    model.tokenizer.chat_template = None
    save_model(model, tmp_path / "plain")
    line = f"{SFT} --model {tmp_path / 'plain'} --examine False --epochs 1 --cooldown 0 --warmup 0 --test-examples 2"
    code, stderr = ask(line, tmp_path / "here/out")
    assert (code, stderr.count("\n")) == (0, 1)
    assert "has no chat template: prompts are written as 'Question: …\\nAnswer:' instead" in stderr
    assert stderr.startswith("supple: ")


@pytest.mark.slow
def test_a_checkpoint_of_another_architecture_is_refused(tmp_path: Path, ask: Ask) -> None:
    """A checkpoint is moved to the folder of another run."""
    small, large = tmp_path / "small", tmp_path / "large"
    assert ask(PRETRAIN, small) == (0, "")
    assert ask(f"{PRETRAIN} --width 32", large) == (0, "")
    (small / "checkpoints/000000000004").rename(large / "checkpoints/000000000005")
    (large / "checkpoints/000000000004/state.json").unlink()
    code, stderr = ask("resume OUT", large)
    assert (code, stderr.count("\n")) == (1, 1)
    assert "belongs to another run (other settings or another seed)" in stderr
