"""Training of a deep linear network, ŷ = W₂W₁x, by gradient descent on a sequence of tasks."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supple.engine.seeding import derive, generator
from supple.engine.storage.restoring import require_like
from supple.engine.work import Numbers, Task
from supple.interventions import Learner
from supple.networks import chain
from supple.tracks.supervised import SupervisedWork

from .representations import gram, ntk_distance
from .sequence import STREAM, make_sequence
from .settings import LinearSettings
from .weights import Array, balanced_init


class LinearNetwork(nn.Module):
    """The network ŷ = W₂W₁x in float64, without biases. The outputs of W₁ are its hidden units."""

    def __init__(self, n_in: int, n_hidden: int, n_out: int) -> None:
        super().__init__()
        self.first = nn.utils.skip_init(nn.Linear, n_in, n_hidden, bias=False, dtype=torch.float64)
        self.hidden = nn.Identity()  # a name for the hidden units, which metrics look at
        self.second = nn.utils.skip_init(nn.Linear, n_hidden, n_out, bias=False, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Map (samples, n_in) → (samples, n_out)."""
        return self.second(self.hidden(self.first(x)))


class LinearWork(SupervisedWork):
    """A λ-balanced network on a sequence of tasks. Every update uses all examples.

    In tasks.jsonl, `losses` has the losses on every task so far. `forgetting` is the mean over the earlier tasks of
    their present loss minus their loss at the end of their own training (D.1).

    Raises UsageError if the tasks are no sequence, and ValueError if no network of these sizes has this λ.
    """

    settings: LinearSettings
    best_by = "loss"

    def __init__(self, settings: LinearSettings) -> None:
        s, span = settings, settings.updates_per_task
        named_tasks = make_sequence(s.tasks, s.n_in, s.n_out, s.samples, s.seed)
        super().__init__(s, [Task(i, i * span, (i + 1) * span, name) for i, (name, _) in enumerate(named_tasks)])
        self.no_best = "losses of different tasks cannot be compared: train on one task" * (len(named_tasks) > 1)
        self.sources = {name: STREAM[name] for name, _ in named_tasks}
        self.data = [task for _, task in named_tasks]
        self.examples = [
            tuple(torch.from_numpy(np.ascontiguousarray(array.T)).to(s.device) for array in (task.x, task.y))
            for task in self.data
        ]
        self.network = LinearNetwork(s.n_in, s.n_hidden, s.n_out).to(s.device)
        with torch.no_grad():
            for name, drawn in self._draw_weights(derive(s.seed, "network")).items():
                self.network.get_parameter(name).copy_(drawn)
        self.learned: list[float] = []  # of every task, its loss at its end
        self.began: dict[str, list[Tensor]] = {}  # the weights with which training of the "run" and the "task" began
        draws = generator(s.seed, "interventions")
        self.learner = Learner(
            "model",
            self.network,
            torch.optim.SGD(self.network.parameters(), lr=s.learning_rate),
            chain(self.network),
            ("hidden",),
            probe=lambda: (self.examples[self.place[0].index][0],),
            loss=lambda: self._losses().mean(),
            batches=lambda count: (self._losses() for _ in range(count or 1)),  # each with all examples
            generator=draws,
            redraw=lambda: self._draw_weights(int(torch.randint(2**62, (), generator=draws))),
        )

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """Return ½⟨‖y − ŷ‖²⟩ over all examples."""
        if "task" not in self.began:  # what hooks did before the first update is not what the task did
            now = [p.detach().clone() for p in self.network.parameters()]
            self.began = {"run": now, **self.began, "task": now}
        return self._losses().mean()

    def enter(self, task: Task) -> None:
        super().enter(task)
        self.began.pop("task", None)

    def examine(self, task: Task) -> dict[str, float]:
        """Return the losses and distances of the present weights.

        `loss` on the task, `excess_loss` above that of the best linear map (½‖W₂W₁ − Σyx‖²), `loss/0-semantic` and so
        on for every task so far, and `forgetting`. `kernel_distance` and `kernel_distance_task` are distances in [0, 1]
        of the tangent kernel from that at the start of the run and of the task."""
        losses = self.losses(task.index)
        numbers = {"loss": losses[-1], "excess_loss": float(self.data[task.index].excess_loss(self._function()))}
        numbers |= {f"loss/{i}-{self.tasks[i].name}": loss for i, loss in enumerate(losses)}
        if task.index:
            numbers["forgetting"] = float(np.mean(np.subtract(losses[:-1], self.learned[: task.index])))
        return numbers | {
            "kernel_distance": self._kernel_distance("run"),
            "kernel_distance_task": self._kernel_distance("task"),
        }

    def finish(self, task: Task, numbers: Numbers) -> Numbers:
        losses = self.losses(task.index)
        self.learned.append(losses[-1])
        return {**super().finish(task, numbers), "losses": losses}

    def losses(self, last: int) -> list[float]:
        """Return the losses on all tasks up to this one."""
        function = self._function()
        return [float(task.loss(function)) for task in self.data[: last + 1]]

    def _function(self) -> Array:
        """Return W₂W₁, (n_out, n_in)."""
        return _to_numpy(self.network.second.weight) @ _to_numpy(self.network.first.weight)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {**super().state(), "learned": self.learned, "began": self.began}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        now = [parameter.detach() for parameter in self.network.parameters()]
        self.learned = state["learned"]
        self.began = {since: require_like(weights, now, f"began.{since}") for since, weights in state["began"].items()}

    # -- what the learner offers, and what it is made of -----------------------------------------------------------

    def _losses(self) -> Tensor:
        """Return ½‖y − ŷ‖² for every example of the task at `place`, (samples,)."""
        x, y = self.examples[self.place[0].index]
        return (y - self.network(x)).square().sum(1) / 2

    def _draw_weights(self, seed: int) -> dict[str, Tensor]:
        s = self.settings
        first, second = balanced_init(s.lam, s.n_in, s.n_hidden, s.n_out, s.init_scale, seed)
        return {"first.weight": torch.from_numpy(first), "second.weight": torch.from_numpy(second)}

    def _kernel_distance(self, since: str) -> float:
        """Return the distance of the tangent kernel from that at the start of the run or the task.

        It is NaN for a network of zeros, which has no such distance."""
        if since not in self.began:
            return 0.0
        then, now = (gram(*map(_to_numpy, weights)) for weights in (self.began[since], self.network.parameters()))
        return float(ntk_distance(then, now))


def _to_numpy(weight: Tensor) -> Array:
    return weight.detach().cpu().numpy()
