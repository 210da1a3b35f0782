"""Record every attention call of one forward, by hooks that are removed after it: heads, arguments, entropy, MLP."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .taps import MlpMatrices, Place, find_mlps

MAP = 2**24  # entries of an attention map in memory at a time
SOFTMAX = (torch.softmax, F.softmax, Tensor.softmax)


@dataclass(eq=False)
class AttentionCall:
    """One call of one attention: its heads and, with `detail`, its arguments, its values and the MLP that follows."""

    place: Place
    heads: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    values: Tensor | None = None  # what it mixes, where a function received it as such
    projected: Tensor | None = None  # the output of the projection that holds the values
    entropies: list[Tensor] = field(default_factory=list)  # batch x heads x queries, or the shape of the map's rows
    mlp: MlpMatrices | None = None
    hidden: Tensor | None = None

    @property
    def tokens(self) -> Tensor | None:
        """The attention's input."""
        inputs = [*self.args, *(self.kwargs.get(name) for name in ("hidden_states", "x", "query", "input"))]
        return next((value for value in inputs if isinstance(value, Tensor)), None)


@contextmanager
def recorded_calls(
    model: nn.Module, places: Sequence[Place], *, detail: bool = False, arguments: bool = False
) -> Iterator[list[AttentionCall]]:
    """A list that fills with the calls, in their order, while the model runs inside the context.

    `arguments` also keeps what every attention was called with; `detail` implies it."""
    calls: list[AttentionCall] = []
    begun: dict[Place, AttentionCall] = {}

    def begin(place: Place) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            begun[place] = entry = (
                AttentionCall(place, args=args, kwargs=kwargs) if detail or arguments else AttentionCall(place)
            )
            if place.output is None:
                entry.heads, weights, entry.values = multihead(module, args, kwargs, weights=detail)
                if weights is not None:
                    entry.entropies.append(entropy(weights))
                calls.append(begun.pop(place))

        return hook

    def finish(place: Place) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            entry = begun.pop(place, None) or AttentionCall(place)
            entry.heads = args[0] if args else next(iter(kwargs.values()))
            calls.append(entry)

        return hook

    def keep_values(place: Place) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if place in begun:
                begun[place].projected = output

        return hook

    def keep_hidden(mlp: MlpMatrices) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            if calls and calls[-1].mlp is None:
                calls[-1].mlp, calls[-1].hidden = mlp, args[0]

        return hook

    with ExitStack() as stack:
        for place in places:
            stack.enter_context(_removed(place.module.register_forward_pre_hook(begin(place), with_kwargs=True)))
            if place.output is not None:
                stack.enter_context(_removed(place.output.register_forward_pre_hook(finish(place), with_kwargs=True)))
            if detail and place.tap.values and place.output is not None:
                source = dict(place.module.named_modules()).get(place.tap.values[0])
                if source is not None:
                    stack.enter_context(_removed(source.register_forward_hook(keep_values(place))))
        if detail:
            for mlp in find_mlps(model):
                stack.enter_context(_removed(mlp.second.register_forward_pre_hook(keep_hidden(mlp))))
            stack.enter_context(_Maps(begun))
        yield calls


@contextmanager
def _removed(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def multihead(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, weights: bool = False
) -> tuple[Float[Tensor, "*batch tokens inner"], Tensor | None, Tensor | None]:
    """Heads of an `nn.MultiheadAttention` on these arguments; with `weights` also its attention maps and values.

    The module applies its output projection without calling it, so its own function is run again with the identity as
    that projection."""
    assert isinstance(module, nn.MultiheadAttention)
    bound = inspect.signature(nn.MultiheadAttention.forward).bind(module, *args, **kwargs)
    bound.apply_defaults()
    a = bound.arguments
    batched = a["query"].dim() == 3
    q, k, v = (t.transpose(0, 1) if module.batch_first and batched else t for t in (a["query"], a["key"], a["value"]))
    same = module.in_proj_weight is not None
    heads, maps = F.multi_head_attention_forward(
        q,
        k,
        v,
        module.embed_dim,
        module.num_heads,
        module.in_proj_weight,
        module.in_proj_bias,
        module.bias_k,
        module.bias_v,
        module.add_zero_attn,
        0.0,
        torch.eye(module.embed_dim, dtype=q.dtype, device=q.device),
        None,
        training=False,
        key_padding_mask=a["key_padding_mask"],
        need_weights=weights,
        attn_mask=a["attn_mask"],
        use_separate_proj_weight=not same,
        q_proj_weight=module.q_proj_weight,
        k_proj_weight=module.k_proj_weight,
        v_proj_weight=module.v_proj_weight,
        average_attn_weights=False,
        is_causal=a["is_causal"],
    )
    heads = heads.transpose(0, 1) if batched else heads
    if not weights:
        return heads, None, None
    weight = module.in_proj_weight[-module.embed_dim :] if same else module.v_proj_weight
    bias = None if module.in_proj_bias is None else module.in_proj_bias[-module.embed_dim :]
    values = F.linear(v, weight, bias)
    return heads, maps, values.transpose(0, 1) if batched else values


class _Maps(TorchFunctionMode):
    """Takes the entropy of the running attention's map: of softmax's result, or of the map that fused attention does
    not form."""

    def __init__(self, begun: dict[Place, AttentionCall]) -> None:
        super().__init__()
        self.begun = begun

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        # an attention inside another is the later of the two
        running = next(reversed(self.begun.values()), None)
        if running is not None and running.place.tap.kind != "nystrom":  # its maps are between tokens and landmarks
            if func is F.scaled_dot_product_attention:
                running.entropies.append(fused_entropy(*args, **kwargs))
                if running.place.tap.kind in ("softmax", "window", "pixel"):
                    value = args[2] if len(args) > 2 else kwargs["value"]
                    running.values = value.transpose(1, 2).flatten(2)
            elif func in SOFTMAX and (kwargs.get("dim", args[1] if len(args) > 1 else -1) in (-1, out.ndim - 1)):
                running.entropies.append(entropy(out))
        return out


def entropy(weights: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows"]:
    """Entropy of each row of an attention map, in nats."""
    rows: Tensor = torch.special.entr(weights).sum(dim=-1)
    return rows


def fused_entropy(
    query: Float[Tensor, "batch heads tokens head_dim"],
    key: Float[Tensor, "batch kv_heads keys head_dim"],
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Float[Tensor, "batch heads tokens"]:
    """Entropy of the attention maps inside `scaled_dot_product_attention`, computed for a few queries at a time."""
    tokens, keys = query.shape[-2], key.shape[-2]
    key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3) if enable_gqa else key
    scaled = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(tokens, keys, dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*attn_mask.shape[:-2], tokens, keys)
    size = max(1, MAP // (scaled[..., 0, 0].numel() * keys))
    rows = []
    for start in range(0, tokens, size):
        scores = scaled[..., start : start + size, :] @ key.mT
        if attn_mask is not None:
            part = attn_mask[..., start : start + size, :]
            scores = scores.masked_fill(~part, float("-inf")) if part.dtype == torch.bool else scores + part
        rows.append(entropy(scores.softmax(dim=-1)))
    return torch.cat(rows, dim=-1)
