"""Losses as the Hugging Face Trainer expects them from a model."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

IGNORED = -100  # a label that is not predicted


def tokens_loss(logits: Tensor, labels: Tensor, items: Any = None) -> Tensor:
    """Cross-entropy over the vocabulary; `items` is the number of labels in the whole accumulated batch, where
    known."""
    flat, wanted = logits.flatten(0, -2).float(), labels.flatten().to(logits.device)
    if items is None:
        return F.cross_entropy(flat, wanted, ignore_index=IGNORED)
    total = F.cross_entropy(flat, wanted, ignore_index=IGNORED, reduction="sum")
    return total / (items.to(total.device) if isinstance(items, Tensor) else items)


def classes_loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
    """Squared error for one label, cross-entropy for several, or one yes or no each (`problem_type`); over both
    classifiers of a distilled model (2 x batch x classes)."""
    if logits.ndim == 3:
        return (classes_loss(logits[0], labels, config) + classes_loss(logits[1], labels, config)) / 2
    kind = config.problem_type or ("regression" if logits.shape[-1] == 1 else "single_label_classification")
    if kind == "regression":
        return F.mse_loss(logits.squeeze(-1).float(), labels.squeeze(-1).float() if labels.ndim > 1 else labels.float())
    if kind == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits.float(), labels.float())
    return F.cross_entropy(logits.float(), labels.flatten())
