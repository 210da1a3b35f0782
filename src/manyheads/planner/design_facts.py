"""The numbers behind reasons and warnings, for one design or for a whole front at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.count import params
from manyheads.arch.quantities import Params
from manyheads.spec.arch import Arch, Sketch, attentions, editable, mlps
from manyheads.spec.parts import Mix

from .attention_kappa import AttentionShape, Floats, ProbedStage, log_kappa, sites
from .costs import Use, latency_share

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StageFacts:
    """One editable stage of every design beside the same stage of the original, whose names end in 0."""

    label: str  # "" in a flat model, "stage 3: " in a staged one
    sites: tuple[AttentionShape, ...]
    mixes: tuple[Mix, ...]
    width: int
    depth: Array
    heads: Array
    head_dim: Array
    kv_heads: Array
    mlp: Array
    log_kappa: Floats
    depth0: int
    heads0: int
    head_dim0: int
    kv_heads0: int
    mlp0: int
    log_kappa0: float
    measured: ProbedStage | None = None

    @property
    def inner(self) -> Array:
        """Inner width."""
        return self.heads * self.head_dim

    @property
    def inner0(self) -> int:
        """Inner width of the original."""
        return self.heads0 * self.head_dim0

    @property
    def changed(self) -> Array:
        """Whether the attention of this stage differs from the original's."""
        return np.asarray((self.heads != self.heads0) | (self.head_dim != self.head_dim0))


@dataclass(frozen=True, eq=False)
class Facts:
    """Designs beside their original; arrays have one entry a design."""

    original: Arch
    use: Use
    stages: tuple[StageFacts, ...]
    params: Params
    params0: Params
    costs: dict[str, Array]
    costs0: dict[str, float]

    def ratio(self, kind: str) -> Array:
        """A design's cost over the original's; 1 where the original costs nothing."""
        before = self.costs0[kind]
        return self.costs[kind] / before if before else np.ones_like(self.costs[kind], float)

    @property
    def layers(self) -> Array:
        """Layers over all editable stages."""
        return np.asarray(sum(stage.depth for stage in self.stages))

    @property
    def layers0(self) -> int:
        """The same for the original."""
        return sum(stage.depth0 for stage in self.stages)

    @property
    def log_ratio(self) -> Floats:
        """Predicted log kappa less the original's, the mean over the design's own layers."""
        total = sum(stage.depth * (stage.log_kappa - stage.log_kappa0) for stage in self.stages)
        return np.asarray(total / self.layers, np.float64)

    @property
    def log_kappa0(self) -> float:
        """The original's log kappa, the mean over its layers: measured where a probe was given, else predicted."""
        logs = [stage.log_kappa0 if stage.measured is None else stage.measured.log_kappa for stage in self.stages]
        return sum(stage.depth0 * log for stage, log in zip(self.stages, logs, strict=True)) / self.layers0

    @property
    def head_layers(self) -> Array:
        """Heads summed over layers."""
        return np.asarray(sum(s.depth * s.heads * len(s.sites) for s in self.stages))

    @property
    def head_layers0(self) -> int:
        """The same for the original."""
        return sum(s.depth0 * s.heads0 * len(s.sites) for s in self.stages)


def facts(
    original: Arch, designs: Arch | Sketch, use: Use, latency: float = 1.0, probed: tuple[ProbedStage | None, ...] = ()
) -> Facts:
    """The numbers of every design of a sketch, or of one record. `latency` is the original's, in seconds, or 1 if
    unknown."""
    spots = editable(original)
    probed = probed or (None,) * len(spots)
    names = [f"stage {at + 1}: " if len(spots) > 1 else "" for at in range(len(spots))]
    stages = tuple(
        _stage(original, designs, i, name, measured) for i, name, measured in zip(spots, names, probed, strict=True)
    )
    kinds = ("params", "flops", "memory", "kv_cache")
    before = {kind: float(value) for kind, value in use.costs(original, kinds).items()} | {"latency": latency}
    count = max(len(stage.depth) for stage in stages)
    after = use.costs(designs, kinds) | {"latency": latency * latency_share(designs, original, use)}
    costs = {kind: np.broadcast_to(np.asarray(value), (count,)) for kind, value in after.items()}
    return Facts(
        original=original,
        use=use,
        stages=stages,
        params=params(designs),
        params0=params(original),
        costs=costs,
        costs0=before,
    )


def _stage(original: Arch, designs: Arch | Sketch, i: int, label: str, measured: ProbedStage | None) -> StageFacts:
    old, new = original.stages[i], designs.stages[i]
    op0, op = attentions(old)[0], attentions(new)[0]
    mlp0, mlp = (next((part.mlp_dim for part in mlps(stage)), 0) for stage in (old, new))
    kv = op.heads if op.kv_heads is None else op.kv_heads
    depth, heads, dims, shared, widths = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(number)) for number in (new.depth, op.heads, op.head_dim, kv, mlp))
    )
    return StageFacts(
        label=label,
        sites=sites(old),
        mixes=tuple(part.mix for part in attentions(old)),
        width=old.width,
        depth=depth,
        heads=heads,
        head_dim=dims,
        kv_heads=shared,
        mlp=widths,
        log_kappa=log_kappa(old, heads * dims),
        depth0=old.depth,
        heads0=op0.heads,
        head_dim0=op0.head_dim,
        kv_heads0=op0.heads if op0.kv_heads is None else op0.kv_heads,
        mlp0=mlp0,
        log_kappa0=float(log_kappa(old, np.array([op0.inner]))[0]),
        measured=measured,
    )
