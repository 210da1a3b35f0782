"""`probe(model, batch)`: how well every attention of any model is conditioned, measured in one forward.

kappa is the condition number of the concatenated heads, a tokens x inner matrix (inner = heads x head_dim). The matrix
is read at the input of the output projection, so fused attention stays on. The model is left exactly as it was.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.spec.errors import UserError
from manyheads.spec.html_table import html_table

from .attention_calls import AttentionCall, recorded_calls
from .attention_modules import AttentionModule, attention_modules, left_out_in_words, watched
from .jacobian import Jacobian, extremes
from .plain_forward import arguments, call, untouched, unwrap
from .site_numbers import Detail, as_matrices, fit, look_closer, mean_and_spread, measure, one_row
from .tap_table import Kind, Tap
from .taps import EXAMPLE, Place, known, unknown
from .theory import gaussian_log_kappa


@dataclass(frozen=True)
class Site:
    """One attention call: the conditioning of its concatenated heads.

    Each sample is one matrix of `tokens` rows; where attention works in windows (or, in TNT, inside patches), each
    window is. `real_tokens` is the mean number of rows without padding. `layer` counts the sites of the same kind in
    the order of the forward. Averages are over the matrices of finite kappa, and `deficient` is the share of those that
    are singular. `not_finite` is the share that holds a NaN or an infinity: where it is not 0, the averages are NaN.
    `kappa` is the geometric mean, `mean_kappa` the arithmetic one; `centred` values are those without the mean
    over tokens.

    `gaussian_log_kappa` is the expectation for independent normal entries in this shape. `head_correlation` is the mean
    over pairs of heads of |A^T B|^2 / (|A^T A| |B^T B|), centred (linear CKA): independent heads give about
    head_dim / (tokens + head_dim), equal heads 1. `reliable` is the share of matrices whose kappa the method can carry.
    `effective_rank` and `numerical_rank` need every singular value; on a GPU they are computed with `detail` only."""

    name: str
    layer: int
    kind: Kind
    tokens: int
    heads: int
    head_dim: int
    inner: int
    matrices: int
    real_tokens: float
    dtype: str
    kappa: float
    log_kappa: float
    log_kappa_spread: float
    mean_kappa: float
    centred_kappa: float
    centred_log_kappa: float
    centred_log_kappa_spread: float
    stable_rank: float
    participation: float
    effective_rank: float | None
    numerical_rank: float | None
    gaussian_log_kappa: float
    gaussian_log_kappa_spread: float
    head_correlation: float | None
    deficient: float
    reliable: float
    detail: Detail | None = None
    jacobian: Jacobian | None = None
    not_finite: float = 0.0


class Sites(tuple[Site, ...]):
    """The sites of one probe in the order of the forward, and every attention-like module of the model in `modules`. It
    prints as a line, and as a table in a notebook."""

    modules: tuple[AttentionModule, ...]

    def __new__(cls, sites: Iterable[Site], modules: tuple[AttentionModule, ...] = ()) -> Sites:
        """A tuple of sites."""
        out = super().__new__(cls, sites)
        out.modules = modules
        return out

    @property
    def left_out(self) -> tuple[AttentionModule, ...]:
        """The modules that attend, or seem to, and of which nothing was measured."""
        return tuple(module for module in self.modules if module.left_out)

    def __repr__(self) -> str:
        if not self:
            return "Sites(none)"
        ranges = []
        for kind in dict.fromkeys(site.kind for site in self):
            kappas = [site.kappa for site in self if site.kind == kind]
            ranges.append(f"{len(kappas)} of {kind} attention, kappa {min(kappas):.3g} to {max(kappas):.3g}")
        missing = f"; {len(self.left_out)} left out" if self.left_out else ""
        return f"Sites({'; '.join(ranges)}{missing})"

    def _repr_html_(self) -> str:
        titles = ("site", "kind", "tokens x inner", "heads", "kappa", "centred", "Gaussian")
        rows = [
            (
                site.name,
                site.kind,
                f"{site.tokens} x {site.inner}",
                f"{site.heads} x {site.head_dim}",
                f"{site.kappa:.3g}",
                f"{site.centred_kappa:.3g}",
                f"{math.exp(site.gaussian_log_kappa):.3g}",
            )
            for site in self
        ]
        return html_table(titles, rows)


class LeftOut(UserWarning):
    """The probe left out modules that the user may take to be measured."""


def probe(
    model: nn.Module,
    batch: Any,
    *,
    mask: Bool[Tensor, "... tokens"] | None = None,
    detail: bool = False,
    jacobian: bool = False,
    taps: Mapping[str, Tap] | None = None,
) -> Sites:
    """One record for every attention call with more than one query row, in the order of the forward.

    `batch` is a tensor, a tuple of arguments or a mapping of keyword arguments. `mask` is True at real tokens; by
    default it is the mapping's own `attention_mask` or `mask`. The forward is eager, in evaluation mode and in float32,
    whatever the model's precision. `detail` adds attention entropy and kappa of tokens, values and MLP; `jacobian` adds
    the extreme singular values of every attention's Jacobian on the first sample. `taps` names attention modules that
    the table does not know. Under FSDP every rank must call `probe`.

    Attention-like modules that were not measured are in `left_out` of the result, each with the reason. All but class
    attention are named in a warning too."""
    module = unwrap(model)
    places = known(module, taps)
    args, kwargs = arguments(batch, _device(module))
    keep = kwargs.get("attention_mask", kwargs.get("mask")) if mask is None else mask
    real = keep.bool().flatten(0, -2) if isinstance(keep, Tensor) and keep.ndim in (2, 3) else None
    with untouched(module):
        calls, modules = _calls(module, places, args, kwargs, detail)
        named = _named(calls)
        if not named:
            raise UserError(_no_site(module, places, modules))
        sites = [(as_matrices(entry), fit(entry, real), entry.place.heads) for _, _, entry in named]
        rows = measure(sites, ranks=detail or sites[0][0].device.type != "cuda")
        closer = [look_closer(entry, real) if detail else None for _, _, entry in named]
        slopes = _jacobians(module, places, args, kwargs) if jacobian else {}
    found = Sites(
        (
            _site(name, layer, entry, numbers, near, slopes.get(name))
            for (name, layer, entry), numbers, near in zip(named, rows, closer, strict=True)
        ),
        modules,
    )
    if text := left_out_in_words(found.left_out):
        warnings.warn(text, LeftOut, stacklevel=2)
    return found


def listeners(model: nn.Module, batch: Any, *, taps: Mapping[str, Tap] | None = None) -> tuple[AttentionModule, ...]:
    """Every attention-like module of `model`, and the tap that listens there or the reason why none does."""
    module = unwrap(model)
    args, kwargs = arguments(batch, _device(module))
    with untouched(module):
        return _calls(module, known(module, taps), args, kwargs, False)[1]


def _device(module: nn.Module) -> torch.device | None:
    first = next(module.parameters(), None)
    return None if first is None else first.device


def _calls(
    module: nn.Module, places: Sequence[Place], args: tuple[Any, ...], kwargs: dict[str, Any], detail: bool
) -> tuple[list[AttentionCall], tuple[AttentionModule, ...]]:
    """The calls of more than one row, and every attention-like module of the model."""
    with watched(module, places) as watch, recorded_calls(module, places, detail=detail) as calls:
        call(module, args, kwargs)
    kept = [entry for entry in calls if not one_row(entry)]
    measured, ran = {entry.place.module for entry in kept}, {entry.place.module for entry in calls}
    return kept, attention_modules(watch, measured, ran - measured)


def _no_site(module: nn.Module, places: Sequence[Place], modules: Sequence[AttentionModule]) -> str:
    """The error message for a model of which nothing can be measured."""
    if not modules:
        return (
            f"this {type(module).__name__} has no attention: none of its modules takes a softmax over keys, calls fused "
            "attention or is named for attention, as in a model of convolutions or state spaces. kappa is of "
            f"concatenated heads, so there is nothing to measure. If it attends in another way, write {EXAMPLE}"
        )
    if not places:
        return f"{unknown(module)}; {left_out_in_words(modules)}"
    return (
        f"the model has {len(places)} attention modules, {places[0].name} among them, and none of them ran on "
        f"this batch with more than one query row; give a batch that reaches them: {left_out_in_words(modules)}"
    )


def _named(calls: Sequence[AttentionCall]) -> list[tuple[str, int, AttentionCall]]:
    """Each call with its name (the second call of a module is `name#2`) and its number among the calls of its kind."""
    names: dict[str, int] = {}
    kinds: dict[Kind, int] = {}
    out = []
    for entry in calls:
        name, kind = entry.place.name, entry.place.tap.kind
        names[name], kinds[kind] = names.get(name, 0) + 1, kinds.get(kind, 0) + 1
        out.append((name if names[name] == 1 else f"{name}#{names[name]}", kinds[kind] - 1, entry))
    return out


def _site(
    name: str,
    layer: int,
    entry: AttentionCall,
    numbers: Float[Tensor, "fields matrices"],
    near: Detail | None,
    slope: Jacobian | None,
) -> Site:
    kappa, log_kappa, centred, stable, participation, reliable, effective, rank, real, correlation = numbers.unbind()
    matrices, heads = as_matrices(entry), entry.place.heads
    tokens, inner = matrices.shape[-2:]
    predicted = gaussian_log_kappa(round(real.mean().item()), inner)
    (log, spread), (centred_log, centred_spread) = mean_and_spread(log_kappa), mean_and_spread(centred)
    finite, broken = kappa[kappa.isfinite()], kappa.isnan()
    return Site(
        name=name,
        layer=layer,
        kind=entry.place.tap.kind,
        tokens=tokens,
        heads=heads,
        head_dim=inner // heads,
        inner=inner,
        matrices=len(matrices),
        real_tokens=real.mean().item(),
        dtype=str(matrices.dtype).removeprefix("torch."),
        kappa=math.exp(log),
        log_kappa=log,
        log_kappa_spread=spread,
        mean_kappa=math.nan if broken.any() else finite.mean().item() if len(finite) else math.inf,
        centred_kappa=math.exp(centred_log),
        centred_log_kappa=centred_log,
        centred_log_kappa_spread=centred_spread,
        stable_rank=stable.mean().item(),
        participation=participation.mean().item(),
        effective_rank=_mean(effective),
        numerical_rank=_mean(rank),
        gaussian_log_kappa=predicted.mean,
        gaussian_log_kappa_spread=predicted.spread,
        head_correlation=_mean(correlation),
        deficient=kappa.isinf().double().mean().item(),
        reliable=reliable.mean().item(),
        detail=near,
        jacobian=slope,
        not_finite=broken.double().mean().item(),
    )


def _mean(values: Float[Tensor, " matrices"]) -> float | None:
    """The mean, or None where nothing was measured."""
    return None if values.isnan().any() else values.mean().item()


def _jacobians(
    module: nn.Module, places: Sequence[Place], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Jacobian]:
    """The Jacobian of every attention's output by its tokens, at the first sample."""
    one = [value[:1] if isinstance(value, Tensor) and value.ndim else value for value in (*args, *kwargs.values())]
    with recorded_calls(module, places, arguments=True) as calls:
        call(module, tuple(one[: len(args)]), dict(zip(kwargs, one[len(args) :], strict=True)))
    jacobians = {}
    for name, _, entry in _named([entry for entry in calls if not one_row(entry)]):
        tokens = entry.tokens
        assert tokens is not None, "an attention is called with tokens"
        jacobians[name] = extremes(partial(_again, entry, tokens), tokens)
    return jacobians


def _again(entry: AttentionCall, tokens: Tensor, other: Tensor) -> Tensor:
    """The attention's output on other tokens, its further arguments unchanged."""
    swap: Callable[[Any], Any] = lambda value: other if value is tokens else value  # noqa: E731
    kwargs = {name: swap(value) for name, value in entry.kwargs.items()}
    out = call(entry.place.module, tuple(swap(value) for value in entry.args), kwargs)
    answer: Tensor = out[0] if isinstance(out, tuple) else out
    return answer


@dataclass(frozen=True)
class Summary:
    """The sites of one kind over all layers.

    `mean_kappa` is the first paper's statistic, the arithmetic mean over layers and samples, which one layer can
    dominate; `mean_log_kappa` is the mean over layers of each layer's mean log kappa."""

    layers: int
    mean_kappa: float
    mean_log_kappa: float
    mean_centred_log_kappa: float
    first_log_kappa: float
    gaussian_log_kappa: float
    reliable: float


def summary(sites: Sequence[Site]) -> dict[Kind, Summary]:
    """One summary for each kind of attention; windows, channels and tokens are never averaged together."""
    out: dict[Kind, Summary] = {}
    for kind in dict.fromkeys(site.kind for site in sites):
        own = [site for site in sites if site.kind == kind]

        def mean(field: str, own: list[Site] = own) -> float:
            return math.fsum(getattr(site, field) for site in own) / len(own)

        out[kind] = Summary(
            layers=len(own),
            mean_kappa=mean("mean_kappa"),
            mean_log_kappa=mean("log_kappa"),
            mean_centred_log_kappa=mean("centred_log_kappa"),
            first_log_kappa=own[0].log_kappa,
            gaussian_log_kappa=mean("gaussian_log_kappa"),
            reliable=mean("reliable"),
        )
    return out


def as_record(site: Site | Summary) -> dict[str, Any]:
    """Plain values for JSON, with None for numbers that are not finite."""

    def tidy(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: tidy(item) for name, item in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    out: dict[str, Any] = tidy(asdict(site))
    return out
