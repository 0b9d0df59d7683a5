"""The experience of an off-policy agent: its replay memory and its counts of decisions and gradient steps."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from supple.agents.draws import Draws, generators, set_states, states_of
from supple.agents.normalize import BoundedRewardScale
from supple.agents.stacks import StackedAgent, by_member
from supple.engine.storage.restoring import require_like
from supple.engine.work import Numbers
from supple.envs import StepResult
from supple.interventions import ReplayWindow
from supple.networks.learner import Batches
from supple.registry.errors import Diverged

from .replay import ReplayLayout, ReplayMemory, Sample
from .sampling import Reservoir, ReservoirMemory, parse_sampling
from .settings import ReplaySettings

BATCHES_AT_ONCE = 16  # most batches drawn together, so that a high replay ratio does not need more memory
PROBE_ROWS = 256  # transitions in the probe of metrics and interventions

Prepared = TypeVar("Prepared")


class ReplayFeed:
    """A sampler that draws batches into reused buffers.

    On a CPU there is one buffer, from which the network reads. For a GPU there are two page-locked buffers, used
    alternately. The copy to the GPU is asynchronous, and a buffer is filled again only after its copy has finished.
    """

    def __init__(self, memory: ReplayMemory, device: torch.device) -> None:
        self.memory, self.device = memory, device
        self._buffers: list[torch.Tensor] = []
        self._copied: list[torch.cuda.Event] = []
        self._turn = 0

    def __call__(self, size: int, draws: Draws) -> Sample:
        """Return `size` random transitions of each member on the network's device. They are valid until the next call.

        Args:
            size: The number of transitions.
            draws: Draws them, as in `ReplayMemory.sample`.
        """
        rows, on_gpu = max(self.memory.members, 1) * size, self.device.type == "cuda"
        if not self._buffers or len(self._buffers[0]) < rows:
            if on_gpu:
                torch.cuda.synchronize()
                self._copied = [torch.cuda.Event() for _ in range(2)]
            self._buffers = [self.memory.buffer(size, pin_memory=on_gpu) for _ in range(1 + on_gpu)]
        if not on_gpu:
            return self.memory.sample(size, draws, out=self._buffers[0][:rows])
        turn = self._turn = 1 - self._turn
        self._copied[turn].synchronize()
        sample = self.memory.sample(size, draws, out=self._buffers[turn][:rows])
        moved = Sample(*(tensor.to(self.device, non_blocking=True) for tensor in sample))
        self._copied[turn].record()
        return moved


class Experience(Generic[Prepared]):
    """A replay memory with the number of decisions and of gradient steps so far.

    Training samples with the memory's generators. Metrics and interventions sample with other generators, so that they
    do not change the run. They receive `prepare(sample, draws)`, which may draw noise for the sample with the same
    generators.

    In a stack, each member has its own memory and generator. Samples and sums have the members as their first axis,
    and the counts are those of one member.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        layout: ReplayLayout,
        device: torch.device,
        statistics: Sequence[str],
        prepare: Callable[[Sample, Draws], Prepared],
    ) -> None:
        """Create an empty memory.

        Args:
            settings: The settings of the agent.
            layout: The contents of one step.
            device: The device of the networks.
            statistics: The names of the entries of `sums`.
            prepare: Makes of a sample what metrics and interventions receive.

        Raises:
            ValueError: The folder of the memory does not exist.
        """
        s = self.settings = settings
        self.device, self.statistics, self.prepare = device, statistics, prepare
        folder = Path(s.replay_folder) if s.replay_folder else None
        self.sampling = parse_sampling(s.replay_sampling)
        if folder and not folder.is_dir():
            raise ValueError(f"--replay-folder {folder} is not a folder: create it or choose another")
        members, size = len(s.members) if s.stacked else 0, (s.replay_size, s.num_envs, layout)
        self.stack = (members,) if members else ()
        self.scale = BoundedRewardScale(s.num_envs, s.gamma, self.stack, s.scale_rewards) if s.scale_rewards else None
        self.memory = (
            ReservoirMemory(*size, generators(s, "reservoir"), folder, members, s.gamma)
            if isinstance(self.sampling, Reservoir)
            else ReplayMemory(*size, folder, members, self.sampling, s.n_step, s.gamma)
        )
        self.feed = ReplayFeed(self.memory, device)
        self.draws = generators(s, "replay")
        self.decisions = 0  # so far, of all environments
        self.taken = 0  # gradient steps so far, with those that were left out
        self.resumes = 0  # decisions before which no gradient steps are made
        self.forgotten = 0  # decisions whose transitions every member has forgotten; -1: not counted yet
        self.updates = 0  # gradient steps since the last call of `numbers`
        self.sums = torch.zeros(*self.stack, len(statistics), dtype=torch.float64, device=device)  # over those steps
        self._recent: tuple[int, Prepared] | None = None

    def begin(self, observations: np.ndarray) -> None:
        """Begin episodes in every environment, as `ReplayMemory.begin` does."""
        self.memory.begin(observations)
        if self.scale:
            self.scale.reset_returns()

    def add(self, actions: np.ndarray, rewards: np.ndarray, result: StepResult) -> None:
        """Store one step of every environment, as `ReplayMemory.add` does."""
        self.memory.add(actions, rewards, result)
        if self.scale:
            self.scale.count(*(by_member(rows, self.stack) for rows in (rewards, result.terminated | result.truncated)))
            self.memory.factors = self.scale.factors()
        self.decisions += self.settings.num_envs

    # -- learning ------------------------------------------------------------------------------------------

    def due(self) -> Iterator[Sample]:
        """Yield the batches of all gradient steps that are due, including heavy priming when learning starts.

        A sample contains up to `BATCHES_AT_ONCE` batches, because the memory does not change between them. Each sample
        is valid until the next one."""
        s = self.settings
        due = s.updates_after(self.decisions)
        if self.decisions < self.resumes:
            self.taken = due if self.taken else 0  # those of a pause are left out, but learning may begin after it
            return
        while self.taken < due:
            count = min(due - self.taken, BATCHES_AT_ONCE)
            sample = self.feed(count * s.batch_size, self.draws)
            self.taken += count
            self.updates += count
            yield sample

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members of a stack, which have diverged, be finite."""
        self.memory.make_finite(members)
        if self.scale:
            self.scale.forget(members)
            self.memory.factors = self.scale.factors()
        self.sums[list(members)] = 0.0
        self._recent = None

    @property
    def oldest(self) -> int:
        """The number of decisions of which the memory has no transitions any more."""
        if self.forgotten < 0:  # a condition may have held for some members: the others keep theirs
            self.forgotten = self.decisions - int(self.memory.sizes().max())
        kept = self.decisions if isinstance(self.sampling, Reservoir) else self.memory.window * self.settings.num_envs
        return max(self.forgotten, self.decisions - kept)

    @property
    def window(self) -> ReplayWindow:
        """The capability by which interventions reach the memory. One of the agent's learners offers it."""
        marks = torch.from_numpy(self.memory.marks.reshape(len(self.settings.members), -1))
        return ReplayWindow(lambda: self.memory.sizes().tolist(), self._keep, self._refusal, marks)

    def _keep(self, share: float) -> None:
        """Forget all transitions but the newest share. If none is left, learning pauses until there is a batch."""
        self.memory.keep(share)
        self._recent, self.forgotten = None, -1
        if not share:
            self.resumes = self.decisions + self.settings.batch_size

    def _refusal(self, share: float) -> str:
        """Return why the memory cannot keep this share, or ""."""
        s = self.settings
        if share and isinstance(self.sampling, Reservoir):
            return f"--replay-sampling {s.replay_sampling} does not have the newest transitions: use keep=0"
        if share and share * s.replay_size < s.batch_size:
            return (
                f"keep={share} of --replay-size {s.replay_size:,} is less than one batch ({s.batch_size} "
                f"transitions): raise it, or use keep=0, after which learning waits for a batch"
            )
        return ""

    # -- for metrics and interventions ---------------------------------------------------------------------

    def recent(self) -> Prepared | None:
        """Return the probe: transitions that stay the same until the next decision, or None while there are none."""
        if not self.memory.ready:
            return None
        if self._recent is None or self._recent[0] != self.decisions:
            draws = generators(self.settings, f"probe {self.decisions}")
            self._recent = self.decisions, self._sample(PROBE_ROWS, draws)
        return self._recent[1]

    def require_recent(self) -> Prepared:
        """Return the probe, as `recent` does. Raises RuntimeError while there are no transitions."""
        if (recent := self.recent()) is None:
            raise RuntimeError("there are no recent transitions before the first step, or after all were forgotten")
        return recent

    def batches(self, losses: Callable[[Prepared], Tensor], draws: Draws) -> Batches:
        """Return a function of a count, which yields the losses on that many batches of training size.

        The batches are drawn by `draws`."""

        def batches(count: int | None) -> Iterator[Tensor]:
            if count is None:
                raise ValueError("a replay memory has no end, so there is no pass over it: give the number of batches")
            if not self.memory.ready:
                raise ValueError("the replay memory is still empty: schedule it later")
            return (losses(self._sample(self.settings.batch_size, draws)) for _ in range(count))

        return batches

    def another(self, draws: Draws) -> Prepared | None:
        """Return a batch of training size, drawn by `draws`, or None while the memory is empty."""
        return self._sample(self.settings.batch_size, draws) if self.memory.ready else None

    def _sample(self, rows: int, draws: Draws) -> Prepared:
        return self.prepare(Sample(*(tensor.to(self.device) for tensor in self.memory.sample(rows, draws))), draws)

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "memory": self.memory.state_dict(),
            "draws": states_of(self.draws),
            "decisions": self.decisions,
            "taken": self.taken,
            "resumes": self.resumes,
            "forgotten": self.forgotten,
            "updates": self.updates,
            "sums": self.sums,
            **({"reward scale": self.scale.state_dict()} if self.scale else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # the memory checks its own state
        require_like(state, {**self.state_dict(), "memory": state["memory"]}, "experience")
        self.memory.load_state_dict(state["memory"])
        set_states(self.draws, state["draws"])
        self.decisions, self.taken, self.updates = state["decisions"], state["taken"], state["updates"]
        self.resumes, self.forgotten = state["resumes"], state["forgotten"]
        self.sums.copy_(state["sums"])
        if self.scale:
            self.scale.load_state_dict(state["reward scale"])
            self.memory.factors = self.scale.factors()


class ReplayAgent(StackedAgent):
    """An agent, or a stack of them, that learns from its `experience`."""

    experience: Experience[Any]

    @property
    def updates(self) -> int:
        """The gradient steps so far, with those that were left out while learning paused."""
        return self.experience.taken

    def sound(self) -> Tensor:
        """Return whether the means of the statistics since the last `numbers` are finite, () or (members,)."""
        return self.experience.sums.isfinite().all(-1)

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members of a stack, which have diverged, be finite."""
        self.experience.freeze(members)

    def numbers(self) -> Numbers:
        """Return the size of the replay memory, and the means of the statistics since the last call.

        In a stack, each is a list of one number for each member, and those of a member that is not `sound` are no
        numbers. Outside a stack, raises Diverged if a mean is not finite."""
        seen = self.experience
        sizes: list[float] = seen.memory.sizes().astype(np.float64).tolist()
        lists = {"replay/size": sizes}
        if seen.updates:
            means = (seen.sums / seen.updates).reshape(len(sizes), -1).T.tolist()
            lists |= dict(zip(seen.statistics, means, strict=True)) | {"updates": [float(seen.updates)] * len(sizes)}
        seen.sums.zero_()
        seen.updates = 0
        if self.stack:
            return dict(lists)
        if not all(isfinite(value) for [value] in lists.values()):
            raise Diverged("the loss is not finite")
        return {name: value for name, [value] in lists.items()}
