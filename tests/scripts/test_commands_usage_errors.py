"""Wrong command lines give exactly one line on stderr and exit status 2, and make nothing."""

import importlib.util
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

Ask = Callable[[str, Path], tuple[int, str]]
TRAIN = "train ppo --env hopper --steps 800 --out OUT"
STREAM = "train ppo --sequence hopper,walker2d --steps-per-task 800 --out OUT"
CARTPOLE = "train ppo --env CartPole-v1 --cycles 2 --steps-per-task 800 --out OUT"
OFF_POLICY = "--cycles 2 --steps-per-task 800 --learning-starts 100 --replay-size 400 --device cpu --out OUT"
COMPARE = "compare ppo --sequence hopper,walker2d --steps-per-task 800 --out OUT"
ATARI = "train dqn --env asterix --steps 800 --learning-starts 100 --replay-size 400 --device cpu --out OUT"
ATARI_STREAM = "train dqn --sequence asterix,pong --steps-per-task 800 --replay-size 400 --device cpu --out OUT"

WRONG = {
    # commands and algorithms
    "trian ppo": "unknown command 'trian': did you mean 'train'?",
    "train": None,  # help, not an error
    "train --env hopper": "which kind of run? (`supple train KIND …`; kinds: ppo, dqn, sac, vision, ",
    "train pppo --env hopper": "unknown kind of run 'pppo': did you mean 'ppo'?",
    "list nonsense": "unknown topic 'nonsense'",
    "list metric": "did you mean 'metrics'?",
    # options
    "train ppo --env hopper --steps abc --out OUT": "--steps: 'abc' is not an integer",
    f"{TRAIN} --seed 1.5": "--seed: '1.5' is not an integer",
    f"{TRAIN} --learning-rate=fast": "--learning-rate: 'fast' is not a number",
    f"{TRAIN} --hidden 64 wide": "--hidden: '64 wide' is not a list of integers",
    f"{TRAIN} --steps 1e300": "--steps: '1e300' is larger than 2^53",
    f"{TRAIN} --steps {10**30}": f"--steps: '{10**30}' is larger than 2^53",
    f"{TRAIN} --steps 8.5e-1": "--steps: '8.5e-1' is not an integer",
    f"{TRAIN} --steps 8e2 --seed -1": "--seed must be 0 or more, got -1",  # an exponent is no mistake
    # all that is wrong is said at once
    f"{TRAIN} --gamma 2 --hidden 0 --seed -1": "--seed must be 0 or more, got -1; --hidden must be a positive number, "
    "got 0; --gamma must lie in [0, 1], got 2.0",
    f"{TRAIN} --hook fire@900 --hook frie@0.5": "--hook: fire@900 never fires: the run has 800 steps; unknown "
    "intervention 'frie'",
    # more than there is
    f"{TRAIN} --hidden 99999999999": "--hidden 99999999999: a tensor of shape (99999999999, 11) needs 4.4 TB, but ",
    f"{TRAIN} --adapter 99999999999": "--adapter 99999999999: a tensor of shape (99999999999, 11) needs 4.4 TB, but ",
    f"{TRAIN} --rollout-steps 1e12": "--rollout-steps 1000000000000 with --num-envs 8 needs ",
    f"{TRAIN} --minibatch-size 2049": "--minibatch-size is 2049, but a batch has only 2048 transitions",
    f"{TRAIN} --threads 1025": "--threads must be 1024 at most, got 1025",
    f"{TRAIN} --num-envs 1_000_000_000": "--num-envs must be 65,536 at most, got 1000000000",
    f"{STREAM} --cycles 1_000_000_000": "--cycles must be 100,000 at most, got 1000000000",
    f"{COMPARE} --seeds 0-1000000000": "--seeds: '0-1000000000' gives 1,000,000,001 seeds, but a comparison has 10,000",
    f"{TRAIN} --hook fire(scope=[])@0.5": "fire(scope=[])@0.5: scope is empty",
    f"{TRAIN} --compile maybe": "--compile: 'maybe' is not one of 'auto', 'on', 'off'",
    f"{TRAIN} --stepz 3": "unknown option --stepz, did you mean --steps?",
    f"{TRAIN} more": "unknown option more",
    "train ppo --env hopper --steps 800": "--out is missing",
    "train ppo --env hopper --steps 800 --out": "--out needs a value",
    "report": None,
    # environments and lengths
    "train ppo --steps 800 --out OUT": "give either --env",
    f"{TRAIN} --env hoper": "unknown environment 'hoper': did you mean 'hopper'",
    f"{STREAM} --sequence hopper,,ant": "empty item in sequence",
    f"{TRAIN} --env PongNoFrameskip-v4": "did you mean 'ALE/Pong-v5', its successor?",
    f"{TRAIN} --env HalfCheetah-v3": "HalfCheetah-v3 can no longer be made: its successor is 'HalfCheetah-v5'",
    f"{TRAIN} --env minigrid:MiniGrid-Empty-5x5-v0": "pip install minigrid, and register",
    f"{TRAIN} --env-kwargs [1]": "--env-kwargs must be a JSON object such as",
    f"{ATARI} --env-kwargs '{{\"mode\": 1}}'": "ALE/Asterix-v5 is given the keyword arguments mode: use --sticky",
    f"{ATARI} --max-episode-steps 9": "ALE/Asterix-v5 has no --max-episode-steps: use --max-frames",
    f"{TRAIN} --steps 0": "--steps must be a positive number, got 0",
    f"{TRAIN} --steps -8": "--steps must be a positive number, got -8",
    f"{TRAIN} --steps 801": "--steps is 801, which is not a multiple of --num-envs 8: use 800 or 808",
    f"{TRAIN} --num-envs 0": "--num-envs must be a positive number, got 0",
    f"{STREAM} --cycles 0": "--cycles must be a positive number",
    f"{ATARI} --env asterx": "unknown environment 'asterx': did you mean 'asterix' or 'asteroids'?",
    f"{ATARI} --env ALE/Asterx-v5": "did you mean 'ALE/Asterix-v5'",
    f"{ATARI} --env halfcheetah": "HalfCheetah-v5: dqn needs Discrete actions, but they are Box(",
    ATARI_STREAM: "DQN has one network for all tasks and needs equal spaces, but ALE/Asterix-v5 has Pixels(",
    f"{ATARI} --steps 802": "--steps is 802, which is not a multiple of --num-envs 4: use 800 or 804",
    f"{STREAM} --adapter 0": "--adapter 0 needs environments with equal observation sizes",
    "train ppo --sequence CartPole-v1,Acrobot-v1 --steps-per-task 800 --one-head True --out OUT": "--one-head True "
    "needs environments with equal spaces, but CartPole-v1 has 4 observations and 2 Categorical outputs, Acrobot-v1 ",
    f"{CARTPOLE} --steps 800": "either --steps (for one task) or --steps-per-task",
    "train ppo --env CartPole-v1 --steps 800 --cycles 3 --out OUT": "--steps cannot be combined with --cycles",
    "train ppo --env CartPole-v1 --cycles 3 --out OUT": "--steps-per-task is missing",
    f"{CARTPOLE} --max-episode-steps 0": "--max-episode-steps must be a positive number, got 0",
    # shifts
    f"{CARTPOLE} --shift friction": "--shift: friction needs MuJoCo physics, but CartPole-v1 has none",
    f"{STREAM} --shift permute_actions": "--shift: permute_actions needs two or more Discrete actions, but Hopper-v5",
    f"{CARTPOLE} --shift ofset": "--shift: unknown shift 'ofset': did you mean 'offset'?",
    f"{CARTPOLE} --shift 'offset(scal=2)'": "--shift: offset has no parameter 'scal': did you mean 'scale'?",
    f"{CARTPOLE} --shift 'offset(over=801)'": "--shift: offset(over=801) takes 801 steps, but a task has only 800",
    f"{CARTPOLE} --shift 'offset + offset'": "--shift: shift 'offset' is given twice",
    f"{CARTPOLE} --shift ''": "--shift: unexpected end",
    f"{TRAIN} --shift offset": "--shift: offset never begins: its first task is 1, but the last task of the run is 0",
    f"{CARTPOLE} --shift 'none + offset(from_task=2)'": "offset(from_task=2) never begins: its first task is 2, but",
    f"train dqn --env CartPole-v1 {OFF_POLICY} --shift gravity": "--shift: gravity needs MuJoCo physics",
    f"train sac --env Pendulum-v1 {OFF_POLICY} --shift gravit": "--shift: unknown shift 'gravit': did you mean",
    # new agents for every task
    f"{CARTPOLE} --fresh True --hook fire@task": "--fresh True cannot be combined with --hook",
    f"train dqn --env CartPole-v1 {OFF_POLICY} --fresh True --learning-starts 800": "--learning-starts is 800, but the",
    f"train sac --env Pendulum-v1 {OFF_POLICY} --fresh True --learning-starts 400": "--learning-starts is 400, but the",
    # numbers
    f"{CARTPOLE} --value-hidden 64 --share-value True": "--value-hidden needs separate hidden layers",
    f"{CARTPOLE} --value-hidden 64 0 --share-value False": "--value-hidden must be a positive number, got 0",
    f"{CARTPOLE} --adam-betas 1 1": "--adam-betas must both lie in [0, 1), got 1.0 1.0",
    f"{CARTPOLE} --weight-decay -1": "--weight-decay must be 0 or more, got -1.0",
    f"{CARTPOLE} --max-grad-norm -1": "--max-grad-norm must be 0 or more, got -1.0",
    f"{CARTPOLE} --target-lambda 1.5": "--target-lambda must lie in [0, 1], got 1.5",
    f"{CARTPOLE} --reward-scale 0": "--reward-scale must be a positive number, got 0",
    f"{CARTPOLE} --initialization he": "--initialization: 'he' is not one of 'orthogonal', 'pytorch'",
    f"{TRAIN} --gamma 1.01": "--gamma must lie in [0, 1], got 1.01",
    f"{TRAIN} --clip nan": "--clip must be",
    f"{TRAIN} --value-coefficient inf": "--value-coefficient must be a finite number",
    f"{TRAIN} --hidden 64 0": "--hidden must be a positive number",
    f"{TRAIN} --keep-checkpoints 0": "--keep-checkpoints must be a positive number",
    f"{TRAIN} --seed -1": "--seed must be 0 or more",
    f"{ATARI} --sticky 1.5": "--sticky must lie in [0, 1], got 1.5",
    f"{ATARI} --sticky-per life": "--sticky-per: 'life' is not one of 'frame', 'step'",
    f"{ATARI} --replay-ratio 0": "--replay-ratio must be a positive number, got 0",
    f"{ATARI} --learning-starts 800": "--learning-starts is 800, but the agent has only 800 steps",
    f"{ATARI} --learning-starts -1": "--learning-starts must be 0 or more, got -1",
    f"{ATARI} --replay-size 31": "--replay-size is 31, but must be at least --batch-size (32)",
    f"{ATARI} --replay-folder nowhere": "--replay-folder nowhere is not a folder: create it",
    f"{ATARI} --replay-size 1_000_000_000": "replay memory of 1,000,000,000 transitions needs 7.1 TB, but ",
    f"{ATARI} --replay-size 100_000_000_000 --replay-folder .": "needs 706.5 TB, but ",
    f"{ATARI} --device tpu": "--device: 'tpu' is not one of 'auto', 'cpu', 'cuda'",
    # interventions, schedules, activations, metrics, presets
    f"{TRAIN} --hook fir@0.5": "--hook: unknown intervention 'fir': did you mean 'fire'?",
    f"{TRAIN} --hook 'fire(step=3)@0.5'": "--hook: fire has no parameter 'step': did you mean 'steps'?",
    f"{TRAIN} --hook 'fire(steps=x)@0.5'": "--hook: fire: steps should be",
    f"{TRAIN} --hook fire@soon": "--hook: unknown schedule 'soon'",
    f"{TRAIN} --hook fire": "'fire' needs a schedule",
    f"{TRAIN} --hook fire@0.5 --hook fire@0.5": "--hook: fire@0.5 is given twice",
    f"{TRAIN} --hook fire@801": "--hook: fire@801 never fires: the run has 800 steps",
    f"{TRAIN} --hook fire@every:801": "never fires",
    f"{TRAIN} --hook fire@task": "--hook: fire@task never fires: the run has 0 task switches",
    f"{STREAM} --hook fire@task:2": "never fires",
    f"{TRAIN} --hook 'fire@when:dormant>1'": "unknown metric 'dormant': did you mean 'dormant_fraction'?",
    f"{TRAIN} --hook 'fire@when:critic/dfi>1'": "unknown metric 'critic/dfi'",
    f"{TRAIN} --hook ''": "--hook: unexpected end",
    f"{TRAIN} --hook injection@0.5": "--hook: injection@0.5: 'agent' has no part to duplicate",
    f"{TRAIN} --hook 'fire(contract=as_released)@0.5'": "no released code applies fire here; use contract=uniform",
    f"{ATARI} --hook 'l2_init(contract=as_released)'": "l2_init has no parameter 'contract'",
    f"{TRAIN} --activation relo": "unknown activation 'relo': did you mean 'relu'?",
    f"{TRAIN} --activation 'leaky_relu(slop=1)'": "leaky_relu has no parameter 'slop'",
    f"{ATARI} --preset demo-mujoco": "--preset demo-mujoco: a preset of ppo, not of dqn",
    "train ppo --preset deom-mujoco --out OUT": "unknown preset 'deom-mujoco': did you mean 'demo-mujoco'?",
    # comparisons
    f"{COMPARE} --leads reward": "--leads 'reward': no report of ppo compares arms by it",
    f"{COMPARE} --fork-at 1": "--fork-at must lie in [0, 1), a fraction of the run, got 1.0",
    f"{COMPARE} --fork-at -0.5": "--fork-at must lie in [0, 1), a fraction of the run, got -0.5",
    f"{COMPARE} --fork-at 0 --arm fire": "--arm: 'fire' needs a schedule",
    f"{COMPARE} --arm none --arm fresh": "use --reference fresh",
    f"{COMPARE} --reference fres": "--reference: 'fres' is not one of 'preset', 'fresh', 'none'",
    "compare linear --reference fresh --out OUT": "--reference fresh is only for agents",
    f"{COMPARE} --fork-at 0.0001": "--fork-at 0.0001 would fork at step 0 of 1600",
    f"{COMPARE} --arm fire --arm fire": "two arms would share a folder",
    f"{COMPARE} --fork-at 0.5 --arm fire@100": "--arm: fire@100 never fires: the run starts at step 800",
    f"{COMPARE} --fork-at 0.75 --arm fire@task": "fire@task never fires: there is no such task switch",
    f"{COMPARE} --arm 'fire + fir'": "--arm: unknown intervention 'fir'",
    f"{COMPARE} --arm 'none + fire'": "none cannot be combined",
    f"{COMPARE} --hook fire@0.5": "--hook is for single runs",
    f"{COMPARE} --seeds 1 1": "--seeds must be different numbers of 0 or more, got (1, 1)",
    f"{COMPARE} --seeds 2-1": "--seeds must be different numbers of 0 or more, got ()",
    f"{COMPARE} --seeds 0 one": "--seeds: 'one' is neither a seed",
    f"{COMPARE} --seed 3": "--seed 3 is for a single run: a comparison takes --seeds 3",
    f"{COMPARE} --vary seed=1,2": "--vary seed=1,2: unknown setting 'seed'",
    f"{COMPARE} --vary steps_per_task=800,1600": "--vary steps_per_task=1600 changes the tasks",
    f"{COMPARE} --keep-best True --eval-episodes 0": "--keep-best: there are no evaluations to choose the best state",
    f"{COMPARE} --jobs -1": "--jobs must be 0 (one per core) or more",
    # folders without a run
    "resume OUT": "contains no run (config.json)",
    "resume": None,
    "resume --jobs 2": "Folder of a run, a comparison or a sweep",
    "resume OUT --width 8": "unknown option --width",
    "report OUT": "neither a run directory",
}
has_ale = importlib.util.find_spec("ale_py") is not None
needs_ale = pytest.mark.skipif(not has_ale, reason="ale-py is an extra")
if not has_ale:
    WRONG = {line: answer for line, answer in WRONG.items() if ATARI[:10] not in line or "CartPole" in line}


@pytest.fixture
def ask(ask: Callable[..., tuple[int, str]]) -> Ask:
    """Return `ask(line, out)`: the exit status and stderr of `supple LINE`, with OUT as the path `out`."""
    return lambda line, out: ask(*(out if word == "OUT" else word for word in shlex.split(line)))


@pytest.mark.slow
@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_is_one_line_and_makes_nothing(
    line: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, stderr = ask(line, tmp_path / "out")
    if WRONG[line] is None:
        assert (code, stderr) == (0, "")
    else:
        assert code == 2
        assert stderr.startswith("supple: ")
        assert stderr.count("\n") == 1
        assert WRONG[line] in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("line", [TRAIN, COMPARE])
def test_a_folder_that_is_not_empty_is_refused_and_not_changed(line: str, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "config.json").write_text("{}")
    code, stderr = ask(line, tmp_path)
    assert code == 2
    assert stderr.count("\n") == 1
    assert f"--out {tmp_path} already holds another run or other files" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "{}"


@pytest.mark.parametrize("text", ["{}", '{"model_type": "bert"}', "[]", "{", '{"algorithm": "ppo", "settings": {}}'])
@pytest.mark.parametrize("file", ["config.json", "comparison.json"])
def test_files_of_another_program_are_refused(file: str, text: str, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / file).write_text(text)
    code, stderr = ask("resume OUT", tmp_path)
    assert code in (1, 2)
    assert stderr.count("\n") == 1
    assert file in stderr


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "file").touch()
    code, stderr = ask(TRAIN, tmp_path / "file" / "run")
    assert code == 1
    assert stderr == f"supple: {tmp_path}/file/run: Not a directory\n"


def test_a_missing_simulator_is_an_error_that_names_its_package(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    code, stderr = ask(TRAIN, tmp_path / "out")
    assert code == 1
    assert stderr.count("\n") == 1
    assert "pip install 'supple[mujoco]'" in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_missing_ale_py_is_an_error_that_says_how_to_install_it(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for line in (ATARI, f"{ATARI} --env ALE/Asterix-v5", f"{ATARI} --env beam_rider"):
        code, stderr = ask(line, tmp_path / "out")
        assert code == 1
        assert stderr.count("\n") == 1
        assert "Atari needs ale-py" in stderr
        assert "pip install 'supple[atari]'" in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@needs_ale
def test_a_comparison_whose_simultaneous_runs_need_too_much_memory_is_refused(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replay of 100,000 transitions takes 0.7 GB."""
    monkeypatch.setattr("supple.agents.offpolicy.replay.free_memory", lambda: 10**9)
    begun: list[Path] = []
    monkeypatch.setattr("supple.scripts.cli.training.finish_queue", lambda path, *_: begun.append(path))
    line = f"{ATARI.replace('train', 'compare')} --replay-size 100_000 --arm none --arm fire"
    code, stderr = ask(f"{line} --jobs 4", tmp_path / "out")
    assert code == 2
    assert stderr.count("\n") == 1
    assert "2 simultaneous runs, each with a replay memory of 100,000 transitions, need 1.4 GB" in stderr
    assert "lower --jobs" in stderr
    assert list(tmp_path.iterdir()) == []
    assert ask(f"{line} --jobs 1", tmp_path / "out") == (0, "")
    assert begun == [tmp_path / "out"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_a_missing_gpu_is_refused(tmp_path: Path, ask: Ask) -> None:
    code, stderr = ask(f"{ATARI} --device cuda", tmp_path / "out")
    assert code == 2
    assert stderr.count("\n") == 1
    assert "--device cuda: PyTorch finds no CUDA GPU here; use --device cpu" in stderr


@pytest.mark.slow
@needs_ale
@pytest.mark.parametrize("hook", ["fire(contract=as_released)@0.5", "injection(contract=as_released)@0.5"])
def test_dqn_accepts_the_contract_as_released(
    hook: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.scripts.cli.training.finish_run", lambda *_: None)
    assert ask(f"{ATARI} --hook '{hook}'", tmp_path / "out") == (0, "")
    assert json.loads((tmp_path / "out/config.json").read_text())["hooks"] == [hook]
