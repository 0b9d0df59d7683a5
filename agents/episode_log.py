"""What the logs of a run say about the episodes of training."""

import warnings
from statistics import fmean

from supple.engine.storage.run_directory import RunDirectory
from supple.envs import REWARD_FLOOR, Episode

from .settings import AgentSettings
from .tasks import EnvTask


class EpisodeLog:
    """The returns of all episodes, explosions of physics, and what agents return that were not updated yet.

    Attributes:
        untrained: The returns of a fresh agent before its first update, by seed; {} once they are logged.
        explosions: The number of explosions since this process began.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.untrained: dict[str, list[float]] = {}
        self.explosions = 0

    def label(self, seed: int | str) -> dict[str, int]:
        """Return the label of the lines that belong to one member of a stack: its seed."""
        return {"seed": int(seed)} if self.settings.stacked else {}

    def begin_agents(self) -> None:
        """Wait for the first returns of fresh agents."""
        self.untrained = {str(seed): [] for seed in self.settings.members}

    def end_untrained(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Log the mean return of a fresh agent's episodes before its first update, or of the first episodes to end."""
        for seed, returns in list(self.untrained.items()):
            if returns:
                place = {"step": step, "task": task.index, **self.label(seed)}
                run.event(event="untrained", **place, **{"return": fmean(returns)}, episodes=len(returns))
                del self.untrained[seed]

    def add(self, run: RunDirectory, task: EnvTask, step: int, episode: Episode) -> None:
        """Log an episode that ended at a step of the run."""
        seed = self.settings.members[episode.index // self.settings.num_envs]
        where = {"step": step, "env": task.env, "task": task.index, "cycle": task.cycle, **self.label(seed)}
        marks = {"exploded": episode.explosion is not None, "broken_off": episode.broken_off}
        marked = {name: True for name, holds in marks.items() if holds}
        run.episode(**where, **{"return": episode.ret}, length=episode.length, **marked)
        if str(seed) in self.untrained:
            self.untrained[str(seed)].append(episode.ret)
        if episode.explosion is not None:
            run.event(event="explosion", **where, reward=episode.explosion)
            self.explosions += 1
            if str(self.explosions).strip("0") == "1":  # the first, the tenth, the hundredth and so on
                warnings.warn(
                    f"{task.env} after {step} steps of the run: the physics exploded, which ends the episode "
                    f"(reward {episode.explosion}; it, the observation or the simulation was not finite, or with "
                    f"MuJoCo a reward was below {REWARD_FLOOR:g}). Explosions so far: {self.explosions}, all logged in "
                    "events.jsonl",
                    stacklevel=2,
                )
