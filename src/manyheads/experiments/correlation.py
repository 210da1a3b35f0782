"""Do the theorem's assumptions hold in a trained model, and does kappa predict the loss?

    manyheads run correlation --scale smoke     six toy ViTs of a quarter of the layers
    manyheads run correlation --scale small     the twin of ViT-B in fourteen designs, 3 seeds
    manyheads run correlation --scale paper     ViT-B in the same designs

The theorem takes heads as independent: the probe follows their correlation (`head_correlation`), and the extreme
singular values of every attention's Jacobian beside kappa. The designs change kappa in different ways at different
prices: heads of the same size, thinner heads of the same inner width, wider heads, fewer layers. If kappa decides, all
lie on one curve (its trends: over all designs of a seed, the rank correlation of final kappa and final loss). Pairs of
equal parameters whose kappa should differ, or should not, are compared one by one."""

from __future__ import annotations

from manyheads.arch.redesign import redesign
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting, Trend

from .sweep41 import SCALES, setting
from .vision_parts import TWIN

# fmt: off
SHAPES = {  # layers, heads and head_dim as factors of the twin's 12, 12 and its own
    "original": (12, 12, 1.0), "fixed2": (12, 24, 1.0), "split2": (12, 24, 0.5), "wide2": (12, 12, 2.0),
    "half": (12, 6, 1.0), "few": (12, 6, 2.0), "peak": (12, 3, 1.0), "one_less": (12, 4, 1.0), "fixed1.5": (12, 18, 1.0),
    "lean": (8, 18, 1.0), "lean_split": (8, 24, 0.5), "depth_only": (8, 12, 1.0), "shallow": (4, 24, 1.0),
    "shallow_only": (4, 12, 1.0),
}
# fmt: on
SMOKE = ("original", "fixed2", "split2", "wide2", "half", "depth_only")


def arms(scale: str) -> tuple[Arm, ...]:
    """Every design."""
    base = TWIN[scale]
    own = base.stages[0].width // 12
    out = []
    for name in SMOKE if scale == "smoke" else SHAPES:
        depth, heads, factor = SHAPES[name]
        head_dim = round(own * factor)
        depth = depth // 4 if scale == "smoke" else depth
        out.append(
            Arm(
                name,
                redesign(base, depth=depth, heads=heads, head_dim=head_dim),
                f"{depth} layers, {heads} heads of {head_dim}, inner {heads * head_dim}",
            )
        )
    return tuple(out)


def _setting(scale: str) -> Setting:
    rare = (
        {"probe_every": 0.99} if scale == "smoke" else {}
    )  # at the beginning and at the end: a Jacobian takes a while
    return setting(scale, arms(scale), probe_jacobian=True, **rare)


CORRELATION = Experiment(
    name="correlation",
    title="Does kappa predict the loss?",
    question="Are heads independent in training, as the theorem takes them to be, and does lower kappa mean lower loss?",
    settings={scale: _setting(scale) for scale in SCALES},
    comparisons=(
        Comparison("fixed2", "wide2", "differ", margin=0.1, metric="log_kappa"),
        Comparison("fixed2", "wide2", "differ", claim="M3", metric="loss"),
        Comparison("split2", "original", "differ", margin=0.1, metric="log_kappa"),
        Comparison("split2", "original", "differ", claim="M3", metric="loss"),
        Comparison("fixed2", "original", "less", metric="log_kappa"),
        Comparison("fixed2", "original", "less", claim="M3", metric="loss"),
        Comparison("half", "original", "more", metric="log_kappa"),
        Comparison("half", "original", "more", claim="M3", metric="loss"),
    ),
    trends=(Trend("log_kappa", "loss", "more", "M3"), Trend("head_correlation", "log_kappa", "more")),
)
