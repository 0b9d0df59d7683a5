"""Three tasks of a few questions, and runs on them with a tiny LLaMA."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.tracks.language.continual.settings import ContinualSettings
from supple.tracks.language.continual.work import ContinualWork, build
from tests.tracks.logs import Runs

ANSWERS = {"a": "01", "b": "xy", "c": "zw"}


class Trials(Runs):
    """Runs of three tasks, four updates each, if nothing else is asked for."""

    kind = "continual"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self, method: str = "moram", **changes: Any) -> ContinualSettings:
        small = ContinualSettings(
            model="llama:32x1",
            tasks=tuple(str(self.folder / f"{name}_train.jsonl") for name in ANSWERS),
            r=2,
            k=2,
            updates_per_task=4,
            batch_size=4,
            max_new_tokens=2,
            learning_rate=1e-2,
            eval_examples=1,
            measure_every=6,
            checkpoint_every=5,
            keep_checkpoints=2,
            device="cpu",
            precision="float32",
        )
        hook = ("ewc(samples=2)",) if method == "ewc" else ()
        return replace(small, **{"method": method, "hook": hook, **changes})

    def work(self, method: str = "moram", **changes: Any) -> ContinualWork:
        settings = self.settings(method, **changes)
        settings.check()
        return build(settings)

    def learn(self, work: ContinualWork, task: int) -> list[float]:
        """Enter a task and learn it. Returns the losses of its updates."""
        work.enter(work.tasks[task])
        losses, optimizer = [], work.learner.optimizer
        for update in range(work.tasks[task].steps):
            work.place = work.tasks[task], update
            optimizer.zero_grad()
            loss = work.loss(*work.place, 0)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    folder = tmp_path_factory.mktemp("tasks")
    for name, answers in ANSWERS.items():
        for split, count in (("train", 10), ("test", 2)):
            lines = [json.dumps({"prompt": f"{name}{i}?", "answer": answers[i % 2]}) for i in range(count)]
            (folder / f"{name}_{split}.jsonl").write_text("\n".join(lines))
    return Trials(folder)
