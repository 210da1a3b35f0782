"""Closed forms for kappa and for rank per head: numpy alone, arrays in and out. No other room repeats these
formulas."""

from .gaussian import LogKappa, gaussian_bound, gaussian_edge, gaussian_log_kappa, peak_heads, ratio_for, sample_kappa
from .rank import (
    best_rank_one,
    harmonics,
    heads_for_degree,
    heads_high_accuracy,
    heads_high_dimension,
    majority_vote,
    one_head,
    plateau,
    rank_coverage,
    rank_one_overlaps,
    sign_coefficient,
    splitting_floor,
)
from .softmax import (
    attention_kappa,
    attention_kappa_holds,
    expected_edges,
    logit_std,
    mean_energy,
    product_edges,
    raw_attention_kappa,
    token_kappa,
    value_kappa,
)

# fmt: off
__all__ = [
    "LogKappa", "attention_kappa", "attention_kappa_holds", "best_rank_one", "expected_edges", "gaussian_bound",
    "gaussian_edge", "gaussian_log_kappa", "harmonics", "heads_for_degree", "heads_high_accuracy",
    "heads_high_dimension", "logit_std", "majority_vote", "mean_energy", "one_head", "peak_heads", "plateau",
    "product_edges", "rank_coverage", "rank_one_overlaps", "ratio_for", "raw_attention_kappa", "sample_kappa",
    "sign_coefficient", "splitting_floor", "token_kappa", "value_kappa",
]
# fmt: on
