"""`plan(arch, Budget(params=0.5))`: which redesigns with more heads and fewer layers fit, why, and what to beware
of."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.quantities import Precision
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import conforms, described, shown, whole

from .attention_kappa import ProbedStage, read_probe
from .constraints import Amount, Budget, Cap, Limits
from .costs import Rest, Use
from .design import Design, design_of, redesign_of
from .design_facts import Facts, facts
from .design_space import Space, space
from .paper_rules import split, widened
from .presentation import html, impossible, listing, summary
from .reasons_and_warnings import tally
from .search import Spots, candidates, countable, pareto, search


@dataclass(frozen=True, eq=False)
class Front:
    """The designs that no other fitting design equals or betters in every respect (see `search`).

    Arrays have one entry a design; `depth`, `heads`, `head_dim` and `mlp_dim` have a column for each stage."""

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

    def __repr__(self) -> str:
        return f"Front({len(self):,} designs)"


@dataclass(frozen=True, eq=False)
class Plan:
    """The result of `plan`. `designs` is the short list, `front` everything it was chosen from, `also` the designs that
    were asked about. Where nothing fits, list and front are empty and `closest` is the design that misses by least."""

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
    probed: tuple[ProbedStage | None, ...] = ()

    def __repr__(self) -> str:
        return f"Plan({summary(self)})"

    def __str__(self) -> str:
        return listing(self)

    def _repr_html_(self) -> str:
        return html(self)

    def judge(self, arch: Arch) -> Design:
        """Judge any redesign of the original by the same rules, whether it fits or not."""
        redesign_of(self.original.arch, arch)
        return design_of(
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
        """Why nothing fits and how close a design comes, in words; empty where something fits."""

        return "" if self.closest is None else impossible(self)


def plan(
    arch: Arch,
    budget: Budget | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    *,
    params: Amount | None = None,
    flops: Amount | None = None,
    memory: Amount | None = None,
    kv_cache: Amount | None = None,
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

    `params`, `flops`, `memory` and `kv_cache` state a budget without a `Budget`: `plan(arch, params="0.5x")`. `tokens`
    or `image` is the context length or image size at which the model will run; `batch`, `precision` and `fused` say how
    it trains. `latency` is the original's batch-1 latency in seconds, where it has been measured. `probe` is the record
    that `manyheads probe --json --detail` writes. `also` are further designs to judge. `rest` is what a module has
    beside its layers; `examples` is how many examples training from scratch would see."""
    start = time.perf_counter()
    budget = _budget(budget, {"params": params, "flops": flops, "memory": memory, "kv_cache": kv_cache})
    for name, given, kind in (("arch", arch, Arch), ("budget", budget, Budget), ("limits", limits, Limits)):
        if not isinstance(given, kind):
            raise UserError(f"{name} is {shown(given)}; write {described(kind)}")
    whole("top", top)
    if examples is not None and not (conforms(examples, float) and examples > 0):
        raise UserError(f"examples is {shown(examples)}; write how many training would see, a number above 0")
    if latency is not None and not (conforms(latency, float) and latency > 0):
        raise UserError(f"latency is {shown(latency)}; write the seconds of one example, a number above 0")
    use = Use(tokens, image, batch, precision, fused, rest, examples)
    original = use.of(arch)
    measured = () if probe is None else read_probe(probe, original)
    seconds = 1.0 if latency is None else latency
    spent = {
        kind: float(value) for kind, value in use.costs(original, ("params", "flops", "memory", "kv_cache")).items()
    }
    caps = budget.caps(spent | {"latency": seconds if latency or _relative(budget) else 0.0})
    designs = space(original, limits)
    countable(designs, use)
    result = search(designs, caps, use, seconds)
    counted = facts(original, result.space.rows(candidates(result.largest)), use, seconds, measured)
    spots = pareto(result.space, result.log_kappas, result.largest, *tally(counted))
    numbers = facts(original, result.space.rows(spots), use, seconds, measured)
    listed, front = _rank(result.space, spots, numbers, top)
    judge = partial(design_of, original, use=use, latency=seconds, caps=caps, measured=measured)
    closest = judge(result.space.arch(*result.nearest)) if result.fitting == 0 else None
    return Plan(
        original=judge(original),
        caps=caps,
        use=use,
        limits=limits,
        designs=tuple(judge(result.space.arch(*at)) for at in listed),
        also=tuple(judge(use.of(redesign_of(arch, design))) for design in also),
        front=front,
        considered=result.space.size,
        fitting=result.fitting,
        seconds=time.perf_counter() - start,
        closest=closest,
        least=result.least,
        space=result.space,
        spots=spots,
        latency=seconds,
        probed=measured,
    )


def _budget(budget: Budget | None, amounts: dict[str, Amount | None]) -> Budget:
    """The budget, given as a whole or by its amounts."""
    if budget is None:
        return Budget(**amounts)
    if given := {kind: value for kind, value in amounts.items() if value is not None}:
        written = ", ".join(f"{kind}={value!r}" for kind, value in given.items())
        raise UserError(f"{budget} and {written} are two budgets; write one Budget with all amounts")
    return budget


def _relative(budget: Budget) -> bool:
    value = budget.latency
    return isinstance(value, float) or (isinstance(value, str) and value.strip().lower().endswith(("x", "%")))


def _rank(where: Space, spots: Spots, numbers: Facts, top: int) -> tuple[list[tuple[int, int, int]], Front]:
    """The short list and the front.

    The list is ordered by fewer serious warnings, fewer cautions, lower predicted kappa, more layers, larger MLP. It
    has one design for each combination of depth, kind of heads (split, widened, shared keys) and MLP (held or cut), and
    further designs of a combination only where these are fewer than `top`."""
    depth, attention, mlp = spots
    serious, cautions = tally(numbers)
    ratio = numbers.log_ratio
    widths = np.zeros((len(depth), 1), np.int64) if where.mlps is None else where.mlps[mlp]
    front = Front(
        depth=where.depths[depth],
        heads=where.heads[attention],
        head_dim=where.head_dims[attention],
        mlp_dim=widths,
        kappa_ratio=np.exp(ratio),
        costs=numbers.costs,
        serious=serious,
        cautions=cautions,
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
