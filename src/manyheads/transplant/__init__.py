"""Trained weights carried into another design: layers folded into one, dropped, cut, widened and padded.

    apply(arch, weights, steps) -> (arch', weights')      pure functions of record and weights, one for each step
    measure_use(model, batches)                           how much each head and MLP unit is used
    search(model, batches, loss, depth=...)               which layers to fold or drop, by the loss they cost

Nothing here trains, and nothing here knows where a model comes from.
"""

from .layer_weights import Weights
from .search import Candidate, Trail, search
from .steps import apply
from .use import LayerUse, least_used, measure_use

__all__ = ["Candidate", "LayerUse", "Trail", "Weights", "apply", "least_used", "measure_use", "search"]
