"""Examine how much plasticity a trained network has lost, and which of its units are dormant.

  supple doctor runs/a                                       a run of supple, at each of its checkpoints
  supple doctor model.zip --sb3 DQN --env CartPole-v1        a model of Stable-Baselines3; only its weights are read
  supple doctor my_net.py:network                            a function that returns a module and its inputs
  supple doctor smollm2 --text corpus.txt                    a causal language model of transformers
  supple doctor runs/a --try fire "snp(lam=0.8)"             whether these would restore it: each is tried and undone

The network is compared with itself at initialisation on the same inputs: how well both fit random targets, which units
are dormant or saturated, and the rank of the features. Only what was measured is reported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from supple.engine.storage.signed_json import require_new
from supple.registry import naming
from supple.registry.errors import RunError, UsageError, refusing
from supple.registry.schema import Positive
from supple.scripts.cli.console import say, screen, warn
from supple.scripts.cli.options import FolderOrNone, Plugins, parse_or_explain
from supple.scripts.cli.progress import show_progress_bar


@dataclass(kw_only=True)
class Options:
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]
    """Run directory, .zip of Stable-Baselines3, FILE.py:FUNCTION, or a model as for `supple sib`."""
    learner: str = ""
    """Network to examine, such as critic. Empty means all."""
    attempts: Annotated[tuple[str, ...], tyro.conf.arg(name="try", metavar="HOOK …")] = ()
    """Interventions to try on the network, such as fire. Its values are restored afterwards."""
    seed: int | None = None
    """Seed to examine of a run that trained several as a stack (default: its first)."""
    updates: Positive[int] = 200
    """Number of gradient steps for fitting the random targets."""
    forward: str = "forward"
    """Method that runs the module of FILE.py:FUNCTION on its inputs."""
    sb3: str = ""
    """Algorithm of the .zip: PPO, A2C, DQN, SAC, TD3 or DDPG."""
    env: str = ""
    """Environment of the .zip, in which it acts for --steps steps to collect inputs."""
    policy: str = "MlpPolicy"
    """Policy class with which the model in the .zip was made."""
    net_arch: tuple[int, ...] = ()
    """Widths of the hidden layers of the .zip (default: SB3's)."""
    policy_kwargs: Annotated[str, tyro.conf.arg(metavar="FILE.py:NAME")] = ""
    """Dictionary in a Python file, or function that returns it: the policy_kwargs of the model in the .zip."""
    steps: Positive[int] = 1000
    """Environment steps for which the .zip acts."""
    text: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Text file that a language model reads, of at least 128 tokens."""
    out: FolderOrNone = None
    """Folder for index.html, doctor.json and the figure, new or empty. Without it nothing is written."""
    threads: Positive[int] = 1
    """Number of threads of PyTorch."""
    plugin: Plugins = ()
    """Plug-in that the run was started with, or that has an intervention to try."""


A_ZIP, A_FUNCTION = "a .zip of Stable-Baselines3", "FILE.py:FUNCTION"
MEANT_FOR = {  # options that only one kind of source reads
    "seed": "a run", "forward": A_FUNCTION, "text": "a language model",
    **dict.fromkeys(("sb3", "env", "policy", "net_arch", "policy_kwargs", "steps"), A_ZIP),
}  # fmt: skip

Stages = Iterator[tuple[int | None, Mapping[str, Any]]]  # step (None if there is only one state) and learners by name


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple doctor", __doc__)
    if options.out:
        require_new(options.out)

    import torch

    from supple.experiments.loss_after import loss_after
    from supple.metrics import diagnose
    from supple.reports.doctor import Findings, Stage, write

    torch.set_num_threads(options.threads)
    for text in options.attempts:
        _parse_attempt(text)
    findings = Findings(options.what)
    try:
        for step, learners in find_source(options)(options, findings.remarks):
            if options.learner and options.learner not in learners:
                raise UsageError(f"--learner {options.learner}: {options.what} has only {', '.join(learners)}")
            for name, learner in learners.items():
                if options.learner not in ("", name):
                    continue
                where = name if step is None else f"{name}, step {step:,}"
                with show_progress_bar(screen, where, 2 * options.updates * (1 + len(options.attempts))) as advance:
                    diagnosis, losses = diagnose(learner, options.updates, after_each=advance), {}
                    for text in options.attempts:
                        intervention = _parse_attempt(text)
                        losses[text] = loss_after(learner, intervention, options.updates, after_each=advance)
                findings.stages.append(Stage(step, diagnosis, losses))
    except UsageError:
        raise
    except ValueError as error:
        raise RunError(f"{options.what} cannot be examined: {error}") from error
    screen.print(findings.printable())
    if options.out:
        write(findings, options.out)
        say(f"page: {options.out / 'index.html'}")


def _parse_attempt(text: str) -> Any:
    """Return the intervention that --try names. Raises UsageError if there is none, or its parameters are wrong."""
    from supple.interventions import make, parse_hook_text

    with refusing(f"--try {text}"):
        parsed = parse_hook_text(text)
        made = make(parsed.call.name, **parsed.call.params) if parsed.call else None
    if made is None or parsed.schedule or parsed.learner:
        raise UsageError(f"--try {text}: give an intervention alone; it is applied at once, where --learner says")
    return made


# -- sources of networks ----------------------------------------------------------------------------------------------


def find_source(options: Options) -> Callable[[Options, list[str]], Stages]:
    """Return the function that reads the networks of WHAT, and adds remarks on them at initialisation to a list."""
    path = Path(options.what)
    read, kind = read_language_model, "a language model"
    if path.suffix == ".zip":
        read, kind = read_sb3, A_ZIP
    elif ".py:" in options.what:
        read, kind = read_function, A_FUNCTION
    elif path.is_dir() and not (path / "tokenizer_config.json").exists():
        read, kind = read_run, "a run"
    for name, source in MEANT_FOR.items():
        if source != kind and getattr(options, name) != getattr(Options, name):
            raise UsageError(f"--{name.replace('_', '-')} is for {source}, but {options.what} is {kind}: leave it out")
    return read


def read_run(options: Options, remarks: list[str]) -> Stages:
    """Yield the learners at each checkpoint of a run; of a stack, those of one seed, as far as it came."""
    from supple.engine.loading import load_states, steps_of
    from supple.metrics import View

    path = Path(options.what)
    for step, work in load_states(path, steps_of(path), warn):
        if (seeds := work.settings.members) == (options.seed,) or (len(seeds) == 1 and options.seed is None):
            yield step, work.learners
            continue
        seed = seeds[0] if options.seed is None else options.seed
        if seed not in seeds:
            raise UsageError(f"--seed {seed}: {path} has only seed {', '.join(map(str, seeds))}")
        if (member := seeds.index(seed)) in work.frozen:
            remarks.append(f"Seed {seed} had diverged by step {step:,}.")
            return
        if options.seed is None and not remarks:
            remarks.append(f"The run trained the seeds {', '.join(map(str, seeds))} as a stack; this is seed {seed}.")
        yield step, {name: View(learner, seeds=[member]) for name, learner in work.learners.items()}


def read_sb3(options: Options, remarks: list[str]) -> Stages:
    """Yield the learners of a model that Stable-Baselines3 saved."""
    if not (options.sb3 and options.env):
        raise UsageError(f"{options.what}: a model of Stable-Baselines3 needs --sb3 ALGORITHM and --env ENVIRONMENT")
    try:
        from supple.integrations.sb3 import learners_of_saved
    except ImportError as error:
        raise RunError("to read a model of Stable-Baselines3, install it: pip install 'supple[sb3]'") from error
    from supple.engine.user_code.networks import redraw_initial

    try:
        learners = learners_of_saved(
            Path(options.what),
            options.sb3,
            options.env,
            options.policy,
            options.steps,
            policy_kwargs=_read_policy_kwargs(options),
        )
    except ValueError as error:
        hint = (
            "; other widths of its hidden layers are given by --net-arch, a features extractor of your own and other "
            "arguments of the policy by --policy-kwargs FILE.py:NAME"
        )
        raise UsageError(f"{error}{hint if 'do not fit' in str(error) else ''}") from error
    for learner in learners.values():
        remarks += redraw_initial(learner, f"{options.what}: a new {options.policy} of {options.sb3}")
    yield None, learners


def _read_policy_kwargs(options: Options) -> dict[str, Any]:
    from supple.engine.user_code.networks import load_named

    widths = {"net_arch": list(options.net_arch)} if options.net_arch else {}
    if not options.policy_kwargs:
        return widths
    what = f"--policy-kwargs {options.policy_kwargs}"
    value = load_named(options.policy_kwargs, what)
    with naming(what):
        kwargs = value() if callable(value) else value
    if not isinstance(kwargs, Mapping):
        raise UsageError(f"{what} must be a dictionary, or a function that returns one, but is {type(kwargs).__name__}")
    if widths and "net_arch" in kwargs:
        raise UsageError(f"{what} has a net_arch: leave out --net-arch")
    return {**kwargs, **widths}


def read_function(options: Options, remarks: list[str]) -> Stages:
    """Yield the learner of the network that a function of the user returns."""
    from supple.engine.user_code.networks import learner_from

    learner, more = learner_from(options.what, options.forward)
    remarks += more
    yield None, {learner.name: learner}


def read_language_model(options: Options, remarks: list[str]) -> Stages:
    """Yield the learner of a causal language model, with the beginning of a text as its inputs."""
    import torch

    from supple.engine.user_code.networks import redraw_initial
    from supple.networks.causal import causal_learner
    from supple.tracks.language.models import load_model

    if options.text is None:
        raise UsageError(
            f"{options.what} is not a run directory, a .zip or FILE.py:FUNCTION; if it is a language model, add "
            f"--text FILE"
        )
    if not options.text.is_file():
        raise UsageError(f"--text {options.text}: no such file")
    model = load_model(options.what)
    with options.text.open("rb") as file:
        beginning = file.read(2**20).decode(errors="replace")
    tokens = model.tokenizer(beginning, return_tensors="pt").input_ids[0]  # (tokens,)
    length = 128
    rows = tokens[: len(tokens) // length * length][: 8 * length].view(-1, length)
    if not len(rows):
        raise UsageError(f"--text {options.text} has {len(tokens)} tokens, but at least {length} are needed")
    learner = causal_learner(
        model.model, None, probe=lambda: (rows,), loss=lambda: model.model(rows, labels=rows).loss,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    learner.initial |= learner.redraw()
    remarks += redraw_initial(learner, f"{options.what}: a new {type(model.model).__name__}")
    yield None, {learner.name: learner}
