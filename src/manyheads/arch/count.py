"""What a model costs, from its record alone: parameters, operations, training memory, cache.

The sums over a whole model stand here, the formulas of its parts in `attention_cost`, `layer_cost`, `embed_cost` and
`head_cost`. They take whole numbers, arrays or symbols alike: the same functions cost one design, a million at once, or
are printed as JavaScript (`symbol.javascript`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from manyheads.spec.arch import Arch, Sketch, attentions
from manyheads.spec.html_table import html_table
from manyheads.spec.parts import Downsample, Lm, Masked, Pair, Token

from .embed_cost import EMBEDS, ENTERS
from .head_cost import HEADS
from .layer_cost import unit_flops, unit_params, unit_saved
from .quantities import Num, Params, Precision, Saved


# ----------------------------------------------------------------------------------------------------- parameters
def params(arch: Arch | Sketch) -> Params:
    """Parameters of `arch` by group."""
    first, last = arch.stages[0], arch.stages[-1]
    total: Params = EMBEDS[type(arch.embed)].params(arch.embed, first)
    for before, stage in zip((first, *arch.stages), arch.stages, strict=False):
        total += ENTERS[type(stage.enter)].params(stage.enter, stage, before) + unit_params(stage).times(stage.depth)
    return total + HEADS[type(arch.head)].params(arch.head, arch.embed, last)


def head_layers(arch: Arch | Sketch) -> Num:
    """Attention heads summed over layers: what long context costs. Class attention is not counted."""
    return sum(stage.depth * op.heads for stage in arch.stages for op in attentions(stage))


# ----------------------------------------------------------------------------------------------------- operations
def forward_flops(arch: Arch | Sketch) -> Num:
    """Operations of one forward pass over one example (both sequences of a pair)."""
    first, last = arch.stages[0], arch.stages[-1]
    body = EMBEDS[type(arch.embed)].flops(arch.embed, first)
    for before, stage in zip((first, *arch.stages), arch.stages, strict=False):
        body = body + ENTERS[type(stage.enter)].flops(stage.enter, stage, before) + stage.depth * unit_flops(stage)
    return _sequences(arch) * body + HEADS[type(arch.head)].flops(arch.head, arch.embed, last)


def training_flops(arch: Arch | Sketch) -> Num:
    """Operations of one training step over one example: a forward, and twice that backward."""
    return 3 * forward_flops(arch)


def _sequences(arch: Arch | Sketch) -> int:
    """How often the body runs for one example."""
    return 2 if isinstance(arch.head, Pair) else 1


# --------------------------------------------------------------------------------------------------------- memory
def activation_bytes(arch: Arch | Sketch, batch: Num = 1, precision: Precision = "fp32", fused: bool = False) -> Num:
    """Bytes kept for the backward pass over `batch` examples; `fused` attention keeps no token x token map.

    Autocast's half-precision copies of the weights are not in here: see `state_bytes`."""
    first, last = arch.stages[0], arch.stages[-1]
    total: Saved = EMBEDS[type(arch.embed)].saved(arch.embed, first)
    for before, stage in zip((first, *arch.stages), arch.stages, strict=False):
        body = unit_saved(stage, fused).times(stage.depth)
        # a convolution hands its own precision on; learned positions in float32 would lift it again
        half = isinstance(stage.enter, Downsample) and not stage.enter.positions
        total += ENTERS[type(stage.enter)].saved(stage.enter, stage, before) + (body.in_compute() if half else body)
    total = total.times(_sequences(arch)) + HEADS[type(arch.head)].saved(arch.head, arch.embed, last)
    return batch * total.bytes(precision)


def state_bytes(arch: Arch | Sketch, precision: Precision = "fp32", gradients: bool = True) -> Num:
    """Weights, gradients and AdamW's two moments in float32, 16 bytes a parameter; autocast adds a half-precision copy
    of the weights. Without `gradients` (one process that drops them after each step) the peak comes before they
    exist."""
    return ((16 if gradients else 12) + (2 if precision == "amp" else 0)) * params(arch).total


def training_bytes(
    arch: Arch | Sketch, batch: Num = 1, precision: Precision = "fp32", fused: bool = False, gradients: bool = True
) -> Num:
    """Activations, optimizer state and what a vocabulary's loss needs on top: the peak of a training step. Other
    temporary buffers, the allocator's slack and the CUDA context are left out; on one GPU they add a few GB."""
    activations = activation_bytes(arch, batch, precision, fused)
    return activations + state_bytes(arch, precision, gradients) + loss_bytes(arch, batch)


def loss_bytes(arch: Arch | Sketch, batch: Num = 1) -> Num:
    """Gradients of log-probabilities and of logits, in float32, while a language model's loss is differentiated."""
    if not isinstance(arch.head, Lm | Masked):
        return 0
    assert isinstance(arch.embed, Token)
    return 8 * batch * arch.stages[-1].tokens * arch.embed.vocab


def kv_bytes(arch: Arch | Sketch, bytes_per_number: int = 2) -> Num:
    """Bytes of key-value cache one token of context costs; 0 for a model that does not generate."""
    if not isinstance(arch.head, Lm):
        return 0
    return sum(2 * bytes_per_number * stage.depth * op.kv_inner for stage in arch.stages for op in attentions(stage))


# ------------------------------------------------------------------------------------------------------- all of it
@dataclass(frozen=True)
class Cost:
    """Cost of one model for one example; memory in bytes, with attention maps kept (`unfused`) or not (`fused`)."""

    params: Params
    forward_flops: Num
    training_flops: Num
    activation_bytes_unfused_fp32: Num
    activation_bytes_fused_amp: Num
    state_bytes: Num
    kv_bytes_per_token: Num
    head_layers: Num

    def _repr_html_(self) -> str:
        groups = {f"{field.name} parameters": getattr(self.params, field.name) for field in fields(self.params)}
        others = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)[1:]}
        rows = {"parameters": self.params.total} | groups | others
        cells = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in rows.items()]
        return html_table(("", "of one example"), cells)


def cost(arch: Arch | Sketch) -> Cost:
    """All costs of `arch`."""
    return Cost(
        params=params(arch),
        forward_flops=forward_flops(arch),
        training_flops=training_flops(arch),
        activation_bytes_unfused_fp32=activation_bytes(arch, precision="fp32", fused=False),
        activation_bytes_fused_amp=activation_bytes(arch, precision="amp", fused=True),
        state_bytes=state_bytes(arch),
        kv_bytes_per_token=kv_bytes(arch),
        head_layers=head_layers(arch),
    )
