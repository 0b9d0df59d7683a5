"""Deep linear networks: their exact learning dynamics, and how initialisation decides what they learn."""

from .exact import Exact, exact_qq
from .flow import gradient_descent, gradient_flow
from .tasks import Task, random_regression, reversal, scaled, semantic_hierarchy
from .weights import aligned_init, balance, balance_residual, balanced_init, random_init

__all__ = [
    "Exact",
    "Task",
    "aligned_init",
    "balance",
    "balance_residual",
    "balanced_init",
    "exact_qq",
    "gradient_descent",
    "gradient_flow",
    "random_init",
    "random_regression",
    "reversal",
    "scaled",
    "semantic_hierarchy",
]
