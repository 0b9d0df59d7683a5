"""Scores of a sequence of supervised tasks: accuracy retained, transferred, and reached while learning.

`accuracies` is the matrix A[i, j]: accuracy on task j after training on task i, both counted from 0. A[−1] is the
accuracy at the end. Only the entries in a formula are read; others may be NaN. A number is NaN if one of its entries
was not measured. Instead of accuracies, A may have scores, or returns on a scale that all tasks share (`share_of_fresh`
with the returns of a reference and of random actions).

Two numbers with opposite signs are called BWT. `backward_transfer` is the usual one (negative: forgotten), `forgetting`
is eq. 10 of the MoRAM paper (positive: forgotten, lower is better).

"Continual World" is Wołczyk et al. 2021 (arXiv 2105.10919), "CORA" is Powers et al. 2021 (arXiv 2110.10067).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, as_array


def average_accuracy(accuracies: ArrayLike) -> float:
    """Return ACC_T = (1/T) Σ_j A[T, j] of accuracies A, (T, T) (Lillo & Cheney 2025, eq. 3).

    Continual World calls it the average performance at the end. For fewer tasks pass `A[:t, :t]`.
    """
    return float(_matrix(accuracies, "average_accuracy")[-1].mean())


def backward_transfer(accuracies: ArrayLike) -> float:
    """Return BWT_T = 1/(T − 1) Σ_{j<T} (A[T, j] − A[j, j]) of accuracies A, (T, T) (Lillo & Cheney, B.6).

    Negative: forgotten. NaN for one task.
    """
    A = _matrix(accuracies, "backward_transfer")
    return _mean(A[-1, :-1] - A.diagonal()[:-1])


def overall_performance(scores: ArrayLike) -> float:
    """Return OP = (1/N) Σ_j A[N, j] of scores A, (N, N) (MoRAM paper, eq. 9).

    It is `average_accuracy` of the tasks' own scores (accuracy, ROUGE-L, SARI, similarity).
    """
    return float(_matrix(scores, "overall_performance")[-1].mean())


def forgetting(scores: ArrayLike) -> float:
    """Return 1/(N − 1) Σ_{j<N} (A[j, j] − A[N, j]) (MoRAM paper, eq. 10, which calls it BWT); positive: forgotten.

    It is −`backward_transfer`, the usual BWT (Lopez-Paz & Ranzato 2017), of scores A, (N, N). NaN for one task.
    """
    return _mean(task_forgetting(_matrix(scores, "forgetting"))[:-1])


def task_forgetting(scores: ArrayLike) -> Array:
    """Return F_j = A[j, j] − A[T, j], what each task has lost since it was learned, (T,) (Continual World).

    Positive: forgotten; negative: later tasks improved it; 0 for the last. In [−1, 1] for scores A, (T, T), in [0, 1].
    Continual World's forgetting is the mean of all T entries, `forgetting` that of the first T − 1.
    """
    A = _matrix(scores, "task_forgetting")
    return A.diagonal() - A[-1]


def isolated_forgetting(scores: ArrayLike, scale: ArrayLike = 1.0) -> Array:
    """Return IF[i, j] = (A[i − 1, j] − A[i, j]) / s_j for j < i, what training on task i took from task j (CORA).

    Positive: forgotten. The sum over i is `task_forgetting` / s_j.

    Args:
        scores: A, (T, T).
        scale: s, a number or (T,), above 0. CORA divides by the largest |return| on the task in the model's own runs,
            by which a model that learns less seems to forget more. Use one scale for all models.

    Returns:
        (T, T); NaN for j ≥ i.
    """
    A = _matrix(scores, "isolated_forgetting")
    return np.where(np.tri(len(A), k=-1, dtype=bool), -_changes(A, np.nan, scale), np.nan)


def zero_shot_transfer(scores: ArrayLike, before: ArrayLike, scale: ArrayLike = 1.0) -> Array:
    """Return Z[i, j] = (A[i, j] − A[i − 1, j]) / s_j for j > i, what training on task i gave to task j (CORA).

    Positive: task j became better before it was trained. The sum over i < j is (A[j − 1, j] − b_j) / s_j, whose mean
    for s = 1 is `forward_transfer`.

    Args:
        scores: A, (T, T).
        before: b, a number or (T,), the scores before any training. They stand for A[−1] in the first row.
        scale: As for `isolated_forgetting`.

    Returns:
        (T, T); NaN for j ≤ i.
    """
    A = _matrix(scores, "zero_shot_transfer")
    return np.where(np.tri(len(A), dtype=bool), np.nan, _changes(A, before, scale))


def intransigence(scores: ArrayLike, reference: ArrayLike) -> Array:
    """Return I_j = r_j − A[j, j], by how much less of each task is learned than by a reference, (T,).

    Positive: it can no longer learn as much. In [−1, 1] for scores in [0, 1]. The definition is that of Chaudhry et al.
    2018 (arXiv 1801.10112), whose reference is trained on all tasks so far together. One that learns the task alone,
    such as a fresh agent, is what measures lost plasticity.

    Args:
        scores: A, (T, T).
        reference: r, (T,), the reference's score on each task after it was trained there.
    """
    return as_array(reference) - _matrix(scores, "intransigence").diagonal()


def learning_curve_transfer(area: ArrayLike, reference: ArrayLike) -> Array:
    """Return FT = (AUC − AUC_ref) / (1 − AUC_ref), the forward transfer of Continual World, (…).

    It is at most 1 where AUC is, and 0 for one that learns as the reference. It has no lower bound and is unstable as
    AUC_ref nears 1, so report AUC − AUC_ref too. Continual World's number is the mean over all tasks.

    Args:
        area: AUC, the area under the learning curve within a task (`learning_curve_area`), (…), on a scale with 1 for
            the best possible.
        reference: AUC_ref, that of an agent that learns this task alone. Both broadcast.

    Returns:
        FT; NaN where AUC_ref ≥ 1, since nothing could be gained.
    """
    a, r = np.broadcast_arrays(as_array(area), as_array(reference))
    return np.divide(a - r, 1 - r, out=np.full(a.shape, np.nan), where=r < 1)


def domain_transfer(accuracies: ArrayLike) -> Array:
    """Return the transfer of each task, (N,): its mean accuracy before it is learned, over A[i, j] with i < j.

    NaN for the first task, which no other precedes. The last column of the tables is the mean of the others (MoRAM
    paper, A.2 and Table 1, after Zheng et al. 2023, "ZSCL"). The state before any training does not count.
    """
    A = _matrix(accuracies, "domain_transfer")
    return np.array([_mean(A[:j, j]) for j in range(len(A))])


def domain_average(accuracies: ArrayLike) -> Array:
    """Return the mean accuracy of each task over all N times, A[:, j]: (N,) (MoRAM paper, A.2 and Table 1)."""
    return _matrix(accuracies, "domain_average").mean(0)


def domain_last(accuracies: ArrayLike) -> Array:
    """Return the accuracy of each task after all are learned, A[N, j]: (N,) (MoRAM paper, A.2 and Table 1)."""
    return _matrix(accuracies, "domain_last")[-1].copy()


def order_disparity(performances: ArrayLike) -> float:
    """Return the standard deviation (with n − 1) of the final performance over task orders, performances: (orders,).

    Source: MoRAM paper, Table 14, which cites Yoon et al. 2020. Their definition differs: the largest difference that
    an order makes to a single task. NaN for one order.
    """
    values = as_array(performances)
    return float(values.std(ddof=1)) if values.size > 1 else float("nan")


def forward_transfer(accuracies: ArrayLike, baseline: ArrayLike) -> float:
    """Return FWT_T = 1/(T − 1) Σ_{j>1} (A[j − 1, j] − b_j), the effect of earlier tasks on one not yet learned.

    Args:
        accuracies: A, (T, T).
        baseline: b, (T,), accuracies on each task before any training, or chance levels; the first is not used. Lillo &
            Cheney, B.6, compare with "a suitable baseline". The formula is that of Lopez-Paz & Ranzato 2017, whose b is
            the accuracy at initialisation.

    Returns:
        A float; NaN for one task.
    """
    A, b = _matrix(accuracies, "forward_transfer"), as_array(baseline)
    return _mean(A.diagonal(1) - b[1:])


def average_online_accuracy(batches: ArrayLike) -> float:
    """Return AOA(T_i) = (1/M) Σ_j a_j over a task's batches, each measured *before* its update (Lillo & Cheney, eq. 4).

    Args:
        batches: a, (M,).
    """
    return float(as_array(batches).mean())


def total_average_online_accuracy(tasks: Sequence[ArrayLike]) -> float:
    """Return TAOA, the mean over *all* batches of all tasks (Lillo & Cheney, eqs. 5 and 6). A longer task weighs more.

    Args:
        tasks: The accuracies of the batches of each task, (M,) as for `average_online_accuracy`. For tasks of equal
            length the result is the mean of their AOA.
    """
    lengths = [np.asarray(task).size for task in tasks]
    return float(np.average([average_online_accuracy(task) for task in tasks], weights=lengths))


def online_generalization_gap(test: ArrayLike, online: ArrayLike) -> float:
    """Return GAP = mean over tasks of (test accuracy after the task − AOA of the task) (Lillo & Cheney, Table E3).

    test, online: (tasks,). Positive: the network is better at the end than while learning. Negative: what it learned
    does not transfer to the test set. The sign is opposite to `generalization_gap`, as used in reinforcement learning.
    """
    return float((as_array(test) - as_array(online)).mean())


def _matrix(accuracies: ArrayLike, caller: str) -> Array:
    A = as_array(accuracies)
    if A.ndim != 2 or A.size == 0 or A.shape[0] != A.shape[1]:
        raise ValueError(f"{caller}: accuracies must be (tasks, tasks), A[i, j] after task i on task j; got {A.shape}")
    return A


def _changes(A: Array, before: ArrayLike, scale: ArrayLike) -> Array:
    """Return (A[i, j] − A[i − 1, j]) / s_j, (T, T), with A[−1] = b."""
    first = np.broadcast_to(as_array(before), (1, len(A)))
    return np.diff(A, axis=0, prepend=first) / as_array(scale)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")
