"""One redesign: its record, what it costs, what theory expects of it, what speaks for it and against it."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.redesign import policy_of
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError

from .attention_kappa import ProbedStage
from .constraints import Cap
from .costs import Training, Use, training
from .design_facts import facts
from .presentation import line
from .reasons_and_warnings import reasons, warnings
from .rules import Remark


@dataclass(frozen=True)
class Design:
    """One redesign.

    `costs` are parameters, operations of one forward, bytes of a training step and of a KV cache, and latency (in
    seconds where the original's is known, else as a share of it); `ratios` are these over the original's. `kappa` is
    the predicted condition number of the concatenated heads, `kappa_ratio` that over the original's."""

    arch: Arch
    policy: str
    costs: dict[str, float]
    ratios: dict[str, float]
    kappa: float
    kappa_ratio: float
    reasons: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    training: Training
    fits: bool = True

    def __repr__(self) -> str:
        return f"Design({line(self)})"

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the warnings."""
        return tuple(warning.code for warning in self.warnings)

    @property
    def dims(self) -> dict[str, list[int]]:
        """Depth, heads, head_dim, kv_heads, inner and mlp_dim of each editable stage."""
        ops = [attentions(self.arch.stages[i])[0] for i in editable(self.arch)]
        shared = [op.heads if op.kv_heads is None else op.kv_heads for op in ops]
        return {
            "depth": depths(self.arch),
            "heads": heads(self.arch),
            "head_dim": head_dims(self.arch),
            "kv_heads": shared,
            "inner": inners(self.arch),
            "mlp_dim": mlp_dims(self.arch),
        }


def design_of(
    original: Arch,
    arch: Arch,
    *,
    use: Use,
    latency: float,
    caps: tuple[Cap, ...],
    measured: tuple[ProbedStage | None, ...],
) -> Design:
    """`arch` judged as a redesign of `original`. `latency` is the original's in seconds, or 1 if unknown; `measured` is
    what a probe measured of each stage, or empty."""
    numbers = facts(original, arch, use, latency, measured)
    costs = {kind: float(value[0]) for kind, value in numbers.costs.items()}
    ratio = exp(float(numbers.log_ratio[0]))
    same = arch == original
    return Design(
        arch=arch,
        policy=policy_of(original, arch),
        costs=costs,
        ratios={kind: float(numbers.ratio(kind)[0]) for kind in costs},
        kappa=exp(numbers.log_kappa0) * ratio,
        kappa_ratio=ratio,
        reasons=() if same else reasons(numbers, arch),
        warnings=() if same else warnings(numbers),
        training=training(arch, original, use),
        fits=all(costs[cap.kind] <= cap.most for cap in caps),
    )


def redesign_of(original: Arch, arch: Arch) -> Arch:
    """`arch` itself if it is the original with other depth, heads or MLP; any other model is refused."""
    shapes = [(one.family, len(editable(one)), tuple(stage.width for stage in one.stages)) for one in (original, arch)]
    if shapes[0] != shapes[1]:
        names = [
            f"{family} of {stages} stages, widths {', '.join(map(str, widths))}" for family, stages, widths in shapes
        ]
        raise UserError(f"this design is a {names[1]} and the original a {names[0]}; judge a redesign of the original")
    return arch
