"""Metrics of a network or of a set of runs: pure functions without side effects."""

from ..networks.recording import record
from ..networks.scale import isometry_scale
from .balance import lambda_balance, lambda_residual
from .churn import policy_churn, update_ratio, value_churn
from .continual import (
    average_accuracy,
    average_online_accuracy,
    backward_transfer,
    domain_average,
    domain_last,
    domain_transfer,
    forgetting,
    forward_transfer,
    online_generalization_gap,
    order_disparity,
    overall_performance,
    total_average_online_accuracy,
)
from .curvature import hessian_eigenvalues
from .diagnosis import Condition, Diagnosis, HiddenUnits, diagnose
from .differences import PairedDifference, holm, paired_difference, seeds_needed, sign_flip, t_interval
from .features import (
    activity_scores,
    dormant_fraction,
    effective_rank,
    feature_covariance_distance,
    feature_rank,
    numerical_rank,
    srank,
)
from .fronts import hypervolume, pareto_front
from .gaps import GeneralizationGap, generalization_gap
from .gradients import gradient_covariance, gradient_effective_rank, per_sample_gradients, small_gradient_fraction
from .human import ATARI_SCORES, human_normalized, human_normalized_score
from .improvement import Improvement, Profile, performance_profile, probability_of_improvement
from .probe import METRICS, Metric, cheap_metrics, measure, measure_members, metrics
from .saturation import (
    accuracy_recovery_time,
    activation_slopes,
    dead_fraction,
    non_recovery_rate,
    peak_saturation,
    saturation_area,
    saturation_fraction,
    saturation_recovery_time,
)
from .scores import (
    BOOTSTRAP_COVERAGE,
    Score,
    bootstrap_coverage,
    bootstrap_interval,
    final_window_return,
    iqm,
    learning_curve_area,
    plasticity_score,
)
from .shares import FreshShare, share_of_fresh, share_over_seeds
from .trainability import TRAINABILITY, Trainability, trainability
from .view import View
from .weights import dfi, dfi_unscaled, gradient_norm, sfe, weight_norm

__all__ = [
    "ATARI_SCORES",
    "BOOTSTRAP_COVERAGE",
    "METRICS",
    "TRAINABILITY",
    "Condition",
    "Diagnosis",
    "FreshShare",
    "GeneralizationGap",
    "HiddenUnits",
    "Improvement",
    "Metric",
    "PairedDifference",
    "Profile",
    "Score",
    "Trainability",
    "View",
    "accuracy_recovery_time",
    "activation_slopes",
    "activity_scores",
    "average_accuracy",
    "average_online_accuracy",
    "backward_transfer",
    "bootstrap_coverage",
    "bootstrap_interval",
    "cheap_metrics",
    "dead_fraction",
    "dfi",
    "dfi_unscaled",
    "diagnose",
    "domain_average",
    "domain_last",
    "domain_transfer",
    "dormant_fraction",
    "effective_rank",
    "feature_covariance_distance",
    "feature_rank",
    "final_window_return",
    "forgetting",
    "forward_transfer",
    "generalization_gap",
    "gradient_covariance",
    "gradient_effective_rank",
    "gradient_norm",
    "hessian_eigenvalues",
    "holm",
    "human_normalized",
    "human_normalized_score",
    "hypervolume",
    "iqm",
    "isometry_scale",
    "lambda_balance",
    "lambda_residual",
    "learning_curve_area",
    "measure",
    "measure_members",
    "metrics",
    "non_recovery_rate",
    "numerical_rank",
    "online_generalization_gap",
    "order_disparity",
    "overall_performance",
    "paired_difference",
    "pareto_front",
    "peak_saturation",
    "per_sample_gradients",
    "performance_profile",
    "plasticity_score",
    "policy_churn",
    "probability_of_improvement",
    "record",
    "saturation_area",
    "saturation_fraction",
    "saturation_recovery_time",
    "seeds_needed",
    "sfe",
    "share_of_fresh",
    "share_over_seeds",
    "sign_flip",
    "small_gradient_fraction",
    "srank",
    "t_interval",
    "total_average_online_accuracy",
    "trainability",
    "update_ratio",
    "value_churn",
    "weight_norm",
]
