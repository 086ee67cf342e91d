"""The scores by their names."""

from folio_trials import key_scores, query_scores

SCORERS = {
    "norm_ratio": key_scores.NormRatio,
    "chance": key_scores.Chance,
    "newest": key_scores.Newest,
    "sampled": key_scores.Sampled,
    "difference": key_scores.Difference,
    "usual": key_scores.Usual,
    "residents": key_scores.Residents,
    "among": key_scores.Among,
    "nested": key_scores.Nested,
    "leverage": key_scores.Leverage,
    "whitened": key_scores.Whitened,
    "mutual": query_scores.Mutual,
    "lag": key_scores.Lag,
    "expected": query_scores.Expected,
    "synthetic": query_scores.Synthetic,
    "window": query_scores.Window,
    "window_most": query_scores.WindowMost,
    "decayed": query_scores.Decayed,
    "later": query_scores.Later,
    "again": query_scores.Again,
    "ridge": query_scores.Ridge,
}
