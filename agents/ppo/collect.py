"""Steps of PPO's agents in C (collect.c), with the results of Python, bit for bit, while no episode ends."""

from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p, cast
from pathlib import Path

import numpy as np

from supple.agents.normalize import EPSILON
from supple.envs.compiled import EXACT, CompiledRows
from supple.networks.inference import CompiledForward
from supple.registry.native import load_native

from .normalizers import CLIP, Normalizers
from .policies import Policy
from .rollout import Rollout


class _Statistics(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("mean", "variance")),
        *((name, c_double) for name in ("count", "epsilon", "clip")),
    ]


class _Collector(Structure):
    """`struct collector` of collect.c, which explains the fields."""

    _fields_ = [
        *((name, c_int64) for name in ("members", "rows", "size", "outputs", "real")),
        *((name, c_void_p) for name in ("network", "task", "run_network", "take_step", "noise", "deviation")),
        *((name, c_void_p) for name in ("observed", "output", "action", "rewards", "current", "shown", "reward")),
        ("scale", c_double),
        ("gamma", c_double),
        ("returns", c_void_p),
        ("of_observations", _Statistics),
        ("of_rewards", _Statistics),
    ]


class Collector:
    """The steps of one rollout that are taken in C.

    Args:
        task: The environments.
        forward: The policy's network.
        policy: The policy, a `Categorical` or `Gaussian` one.
        normalizers: The statistics, which steps change in place.
        key: The environment's key in them.
        rollout: The rollout, which steps fill.
        noise: The noise of its actions, (steps, *shape, outputs).
        deviation: The standard deviation of Gaussian actions, or None.
    """

    def __init__(
        self,
        task: CompiledRows,
        forward: CompiledForward,
        policy: Policy,
        normalizers: Normalizers,
        key: str,
        rollout: Rollout,
        noise: np.ndarray,
        deviation: np.ndarray | None,
    ) -> None:
        library = load_native(Path(__file__).with_name("collect.c"), *EXACT)
        assert library is not None
        self._collect, self.rollout = library.collect, rollout
        self.current = np.empty(rollout.observations.shape[1:], np.float32)
        self.shown, self.reward = np.empty(task.shape, np.float32), np.empty(task.shape[0])
        s, scale = normalizers.settings, normalizers.rewards[key]
        self._statistics = {
            name: own
            for name, own, used in (
                ("of_observations", normalizers.observations[key], s.normalize_observations),
                ("of_rewards", scale.statistics, s.normalize_rewards),
            )
            if used
        }
        arrays = {
            "noise": noise, "deviation": deviation, "observed": rollout.observations, "output": rollout.outputs,
            "action": rollout.actions, "rewards": rollout.rewards, "current": self.current, "shown": self.shown,
            "reward": self.reward, "returns": scale.returns,
        }  # fmt: skip
        self.task, self._alive = task, (arrays, forward)  # C only has their addresses
        self.fields = _Collector(
            members=forward.network.members,
            rows=task.shape[0],
            size=task.shape[1],
            outputs=policy.outputs,
            real=policy.scaled,
            network=addressof(forward.network),
            task=addressof(task.rows),
            run_network=cast(forward.run, c_void_p),
            take_step=cast(task.take_step, c_void_p),
            scale=s.reward_scale,
            gamma=scale.gamma,
            **{name: array.ctypes.data for name, array in arrays.items() if array is not None},
            **{
                name: _Statistics(own.mean.ctypes.data, own.variance.ctypes.data, own.count, EPSILON, CLIP)
                for name, own in self._statistics.items()
            },
        )

    def __call__(self, current: np.ndarray, most: int) -> int:
        """Take at most so many steps, and return how many were taken.

        current: The present observations as the network reads them; afterwards they are in the attribute."""
        np.copyto(self.current, current)
        self.task.rows.shown, self.task.rows.reward = self.fields.shown, self.fields.reward
        for name, own in self._statistics.items():
            getattr(self.fields, name).count = own.count
        first = self.rollout.filled
        taken = self._collect(byref(self.fields), c_int64(first), c_int64(most))
        for name, own in self._statistics.items():
            own.count = getattr(self.fields, name).count
        self.rollout.filled += taken
        for ends in (self.rollout.terminated, self.rollout.truncated):
            ends[first : first + taken] = False
        return taken
