"""Deep linear networks: their exact learning dynamics, and how initialisation decides what they learn."""

from .continual import follow, forgetting, time_to_converge
from .exact import Exact, exact_qq
from .flow import gradient_descent, gradient_flow
from .noise import (
    converged_norms,
    converged_parameter_noise_loss,
    input_noise_loss,
    parameter_noise_loss,
)
from .representations import (
    Quadrants,
    converged_quadrants,
    gram,
    ntk,
    ntk_distance,
    quadrants,
    rsm_input,
    rsm_output,
)
from .singular_values import singular_values, transition
from .tasks import LinearTask, add_feature, random_regression, reversal, scale_targets, semantic_hierarchy
from .transfer import generalisation_loss, hierarchy_feature, new_feature
from .weights import (
    aligned_init,
    balance,
    balance_residual,
    balanced_factors,
    balanced_init,
    expected_balance,
    random_init,
)

__all__ = [
    "Exact",
    "LinearTask",
    "Quadrants",
    "add_feature",
    "aligned_init",
    "balance",
    "balance_residual",
    "balanced_factors",
    "balanced_init",
    "converged_norms",
    "converged_parameter_noise_loss",
    "converged_quadrants",
    "exact_qq",
    "expected_balance",
    "follow",
    "forgetting",
    "generalisation_loss",
    "gradient_descent",
    "gradient_flow",
    "gram",
    "hierarchy_feature",
    "input_noise_loss",
    "new_feature",
    "ntk",
    "ntk_distance",
    "parameter_noise_loss",
    "quadrants",
    "random_init",
    "random_regression",
    "reversal",
    "rsm_input",
    "rsm_output",
    "scale_targets",
    "semantic_hierarchy",
    "singular_values",
    "time_to_converge",
    "transition",
]
