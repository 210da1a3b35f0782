"""`plan(arch, Budget(params=0.5))`: which redesigns with more heads and fewer layers fit, why, and what to beware
of."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.quantities import Precision
from manyheads.arch.redesign import policy_of
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError

from . import probed as probes
from .budget import Budget, Cap
from .facts import Facts, facts
from .front import Spots, candidates, pareto
from .judge import tally, warnings
from .kappa_rules import split, widened
from .limits import Limits
from .notes import Note
from .reasons import reasons
from .search import search
from .space import Space, space
from .training import Training, training
from .use import Rest, Use

SCRATCH = (
    "A redesign is another model and trains from scratch: no weight of the original carries over. Nothing here says "
    "how accurate it will be; the comparison to run does."
)


@dataclass(frozen=True)
class Design:
    """One redesign: its record, what it costs, what theory expects of it, what speaks for it and against it.

    `costs` are parameters, operations of one forward, bytes of a training step and of a KV cache, and latency (in
    seconds where the original's is known, else as a share of it); `ratios` the same over the original's. `kappa_ratio`
    is the predicted kappa over the original's."""

    arch: Arch
    policy: str
    costs: dict[str, float]
    ratios: dict[str, float]
    kappa: float
    kappa_ratio: float
    reasons: tuple[Note, ...]
    warnings: tuple[Note, ...]
    training: Training
    fits: bool = True

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the warnings."""
        return tuple(note.code for note in self.warnings)

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


@dataclass(frozen=True, eq=False)
class Front:
    """Every design that nothing else that fits equals or betters in every respect, as arrays of one entry a design;
    `depth`, `heads`, `head_dim` and `mlp_dim` have a column for each stage."""

    depth: NDArray[np.int64]
    heads: NDArray[np.int64]
    head_dim: NDArray[np.int64]
    mlp_dim: NDArray[np.int64]
    kappa_ratio: NDArray[np.float64]
    costs: dict[str, NDArray[Any]]
    serious: NDArray[np.int64]
    cautions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.depth)


@dataclass(frozen=True, eq=False)
class Plan:
    """What `plan` found. `designs` is the short list, `front` everything it was chosen from, `also` what was asked
    about. Where nothing fits, both are empty and `closest` is the design that misses by the least."""

    original: Design
    caps: tuple[Cap, ...]
    use: Use
    limits: Limits
    designs: tuple[Design, ...]
    also: tuple[Design, ...]
    front: Front
    considered: int
    fitting: int
    seconds: float
    closest: Design | None
    least: dict[str, float]
    space: Space
    spots: Spots
    latency: float
    probed: tuple[probes.Probed | None, ...] = ()

    def judge(self, arch: Arch) -> Design:
        """Any redesign of the original by the same rules, whether it fits or not."""
        _insist_on_redesign(self.original.arch, arch)
        return _design(
            self.original.arch,
            self.use.of(arch),
            use=self.use,
            latency=self.latency,
            caps=self.caps,
            measured=self.probed,
        )

    def __contains__(self, arch: Arch) -> bool:
        """Whether a design is on the front."""
        at = self.space.find(self.use.of(arch))
        if at is None:
            return False
        rows = np.stack(self.spots, axis=1)
        return bool((rows == np.array(at)).all(axis=1).any())

    def impossible(self) -> str:
        """Why nothing fits, and how close one can get, in words; empty where something does."""
        from .words import impossible

        return "" if self.closest is None else impossible(self)


def plan(
    arch: Arch,
    budget: Budget,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    *,
    tokens: int | None = None,
    image: int | None = None,
    batch: int = 32,
    precision: Precision = "amp",
    fused: bool = True,
    latency: float | None = None,
    probe: Any = None,
    also: Iterable[Arch] = (),
    top: int = 8,
    rest: Rest = Rest(),  # noqa: B008 (frozen)
    examples: float | None = None,
) -> Plan:
    """Redesigns of `arch` with more heads and fewer layers that fit `budget`: a ranked short list and the front behind
    it.

    `tokens` or `image` is the context length or image size the model will run at; `batch`, `precision` and `fused` say
    how it trains. `latency` is the original's batch-1 latency in seconds, where it was measured. `probe` is the record
    that `manyheads probe --json --detail` wrote. `also` are designs to judge beside those that are found. `rest` is
    what a module has beside its layers; `examples` is how many the training from scratch would see."""
    start = time.perf_counter()
    if top < 1:
        raise UserError(f"top is {top}; write a whole number from 1 up")
    if examples is not None and not 0 < examples < float("inf"):
        raise UserError(f"examples is {examples}; write how many training would see, a number above 0")
    use = Use(tokens, image, batch, precision, fused, rest, examples)
    original = use.of(arch)
    measured = () if probe is None else probes.read(probe, original)
    known = 1.0 if latency is None else latency
    spent = {
        kind: float(value) for kind, value in use.costs(original, ("params", "flops", "memory", "kv_cache")).items()
    }
    caps = budget.caps(spent | {"latency": known if latency or _relative(budget) else 0.0})
    found = search(space(original, limits), caps, use, known)
    counted = facts(original, found.space.rows(candidates(found.largest)), use, known, measured)
    spots = pareto(found.space, found.log_kappas, found.largest, *tally(counted))
    numbers = facts(original, found.space.rows(spots), use, known, measured)
    chosen, front = _rank(found.space, spots, numbers, top)
    judged = partial(_design, original, use=use, latency=known, caps=caps, measured=measured)
    closest = judged(found.space.arch(*found.nearest)) if found.fitting == 0 else None
    asked = tuple(judged(use.of(_insist_on_redesign(arch, one))) for one in also)
    return Plan(
        judged(original),
        caps,
        use,
        limits,
        tuple(judged(found.space.arch(*at)) for at in chosen),
        asked,
        front,
        found.space.size,
        found.fitting,
        time.perf_counter() - start,
        closest,
        found.least,
        found.space,
        spots,
        known,
        measured,
    )


def _relative(budget: Budget) -> bool:
    value = budget.latency
    return isinstance(value, float) or (isinstance(value, str) and value.strip().lower().endswith(("x", "%")))


def _design(
    original: Arch,
    arch: Arch,
    *,
    use: Use,
    latency: float,
    caps: tuple[Cap, ...],
    measured: tuple[probes.Probed | None, ...],
) -> Design:
    one = facts(original, arch, use, latency, measured)
    costs = {kind: float(value[0]) for kind, value in one.costs.items()}
    ratio = exp(float(one.log_ratio[0]))
    same = arch == original
    return Design(
        arch,
        policy_of(original, arch),
        costs,
        {kind: float(one.ratio(kind)[0]) for kind in costs},
        exp(one.log_kappa0) * ratio,
        ratio,
        () if same else reasons(one, arch),
        () if same else warnings(one),
        training(arch, original, use),
        all(costs[cap.kind] <= cap.most for cap in caps),
    )


def _rank(where: Space, spots: Spots, numbers: Facts, top: int) -> tuple[list[tuple[int, int, int]], Front]:
    """The short list. Order: fewer serious warnings, fewer cautions, lower predicted kappa, more layers, larger MLP.
    Distinct: one design for each depth, kind of heads (split, widened, shared keys) and MLP (held or cut), and others
    of the same kind only where these are fewer than asked for."""
    depth, attention, mlp = spots
    serious, cautions = tally(numbers)
    ratio = numbers.log_ratio
    widths = np.zeros((len(depth), 1), np.int64) if where.mlps is None else where.mlps[mlp]
    front = Front(
        where.depths[depth],
        where.heads[attention],
        where.head_dims[attention],
        widths,
        np.exp(ratio),
        numbers.costs,
        serious,
        cautions,
    )
    order = np.lexsort((-widths.sum(axis=1), -numbers.layers, np.round(ratio, 6), cautions, serious))
    kinds = np.stack(
        [
            depth,
            np.any([split(s) for s in numbers.stages], axis=0),
            np.any([widened(s) for s in numbers.stages], axis=0),
            np.any([s.kv_heads != s.heads for s in numbers.stages], axis=0),
            np.all([s.mlp == s.mlp0 for s in numbers.stages], axis=0),
        ],
        axis=1,
    )
    first: dict[tuple[int, ...], int] = {}
    for i in order:
        first.setdefault(tuple(kinds[i].tolist()), int(i))
    distinct = list(first.values())[:top]
    others = [int(i) for i in order if int(i) not in first.values()] if len(distinct) < top else []
    ranks = {int(i): rank for rank, i in enumerate(order)}
    listed = sorted([*distinct, *others[: top - len(distinct)]], key=lambda i: ranks[i])
    return [(int(depth[i]), int(attention[i]), int(mlp[i])) for i in listed], front


def _insist_on_redesign(original: Arch, arch: Arch) -> Arch:
    """`arch`, where it is the original with other depth, heads or MLP; any other model is refused."""
    shapes = [(one.family, len(editable(one)), tuple(stage.width for stage in one.stages)) for one in (original, arch)]
    if shapes[0] != shapes[1]:
        told = [
            f"{family} of {stages} stages, widths {', '.join(map(str, widths))}" for family, stages, widths in shapes
        ]
        raise UserError(f"this design is a {told[1]} and the original a {told[0]}; judge a redesign of the original")
    return arch
