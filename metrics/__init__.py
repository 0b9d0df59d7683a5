"""What can be measured on a network or on a set of runs: pure functions that change nothing."""

from .features import activity_scores, dormant_fraction, effective_rank, feature_covariance_distance, srank
from .gaps import GeneralizationGap, generalization_gap
from .human import ATARI_SCORES, human_normalized, human_normalized_score
from .probe import METRICS, Metric, View, measure, record
from .scores import Score, bootstrap_interval, final_window_return, iqm, plasticity_score
from .weights import dfi, dfi_unscaled, gradient_norm, isometry_scale, sfe, weight_norm

__all__ = [
    "ATARI_SCORES",
    "METRICS",
    "GeneralizationGap",
    "Metric",
    "Score",
    "View",
    "activity_scores",
    "bootstrap_interval",
    "dfi",
    "dfi_unscaled",
    "dormant_fraction",
    "effective_rank",
    "feature_covariance_distance",
    "final_window_return",
    "generalization_gap",
    "gradient_norm",
    "human_normalized",
    "human_normalized_score",
    "iqm",
    "isometry_scale",
    "measure",
    "plasticity_score",
    "record",
    "sfe",
    "srank",
    "weight_norm",
]
