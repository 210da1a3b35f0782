"""Folding: consecutive layers become one layer that computes all their attentions side by side, then all their MLPs.

The layer that results equals the parallel form of its group, x += sum_i A_i(n_i(x)), then x += sum_i M_i(m_i(x)). That
is an approximation of the sequential layers, in which A_2 sees what A_1 and M_1 wrote. Each norm's gain and bias move
into the matrices that read it, each layer scale into the matrix that writes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.arch.layer_edits import attention_and_mlp, folded, heads_of, mlp_of
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Residual

from .layer_weights import TrainedLayer, Weights


def fold(group: Sequence[TrainedLayer]) -> TrainedLayer:
    """The layer that equals the parallel form of `group`."""
    record = folded([layer.record for layer in group])
    attention, mlp = attention_and_mlp(record)
    weights = plain_norm(attention, "attention", group[0].weights) | plain_norm(mlp, "mlp", group[0].weights)
    weights |= _attention(group, attention) | _mlp(group, mlp)
    return TrainedLayer(record, weights)


def _attention(group: Sequence[TrainedLayer], residual: Residual) -> Weights:
    op = heads_of(residual)
    parts: list[list[Tensor]] = [[], [], []]
    biases: list[list[Tensor]] = [[], [], []]
    outs, out_biases = [], []
    for layer in group:
        branch, _ = attention_and_mlp(layer.record)
        own = heads_of(branch)
        weight, bias = reading(branch, "attention", layer.weights, "attention.op.qkv")
        sizes = (own.inner, own.kv_inner, own.kv_inner)
        for column, rows in zip(parts, weight.split(sizes), strict=True):
            column.append(rows)
        for column, rows in zip(biases, bias.split(sizes), strict=True):
            column.append(rows)
        out, out_bias = writing(branch, "attention", layer.weights, "attention.op.out", own.out_scale)
        outs.append(out)
        out_biases.append(out_bias)
    weights = {
        "attention.op.qkv.weight": torch.cat([rows for column in parts for rows in column]),
        "attention.op.out.weight": torch.cat(outs, dim=1),
    }
    if op.qkv_bias:
        weights["attention.op.qkv.bias"] = torch.cat([rows for column in biases for rows in column])
    if op.out_bias:
        weights["attention.op.out.bias"] = torch.stack(out_biases).sum(dim=0)
    return weights | shared_norms(group)


def shared_norms(group: Sequence[TrainedLayer]) -> Weights:
    """The norms of queries and keys, which have to be the same in all layers: every head has the one of its layer."""
    names = [name for name in group[0].weights if name.startswith(("attention.op.q_norm.", "attention.op.k_norm."))]
    for layer in group[1:]:
        for name in names:
            if not torch.equal(layer.weights[name], group[0].weights[name]):
                raise UserError(
                    "the norms of queries and keys have other gains in these layers, and a folded layer has one for all "
                    "of its heads; drop layers instead"
                )
    return {name: group[0].weights[name] for name in names}


def _mlp(group: Sequence[TrainedLayer], residual: Residual) -> Weights:
    op = mlp_of(residual)
    halves = 2 if op.gated else 1  # a gated MLP's first matrix has all gates, then all values
    parts: list[list[Tensor]] = [[] for _ in range(halves)]
    biases: list[list[Tensor]] = [[] for _ in range(halves)]
    outs, out_biases = [], []
    for layer in group:
        _, branch = attention_and_mlp(layer.record)
        weight, bias = reading(branch, "mlp", layer.weights, "mlp.op.inp")
        for column, rows in zip(parts, weight.chunk(halves), strict=True):
            column.append(rows)
        for column, rows in zip(biases, bias.chunk(halves), strict=True):
            column.append(rows)
        out, out_bias = writing(branch, "mlp", layer.weights, "mlp.op.out")
        outs.append(out)
        out_biases.append(out_bias)
    weights = {
        "mlp.op.inp.weight": torch.cat([rows for column in parts for rows in column]),
        "mlp.op.out.weight": torch.cat(outs, dim=1),
    }
    if op.bias:
        weights["mlp.op.inp.bias"] = torch.cat([rows for column in biases for rows in column])
        weights["mlp.op.out.bias"] = torch.stack(out_biases).sum(dim=0)
    return weights


def reading(branch: Residual, name: str, weights: Weights, matrix: str) -> tuple[Tensor, Tensor]:
    """The matrix that reads a branch's norm and its bias, after the norm's gain and bias have moved into them."""
    weight = weights[f"{matrix}.weight"]
    bias = weights.get(f"{matrix}.bias")
    bias = weight.new_zeros(weight.shape[0]) if bias is None else bias
    kind = None if branch.norm is None else branch.norm.kind
    match kind:
        case None:
            return weight, bias
        case "layer":
            bias = bias + weight @ weights[f"{name}.norm.bias"]
            return weight * weights[f"{name}.norm.weight"], bias
        case "rms":
            return weight * weights[f"{name}.norm.weight"], bias
        case "unit":
            return weight * weights[f"{name}.norm.scale"], bias
        case _:
            raise UserError(f"a {kind} norm does not move into the matrix behind it; drop layers instead")


def writing(
    branch: Residual, name: str, weights: Weights, matrix: str, out_scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The matrix that writes into the residual stream and its bias, times the layer scale and `out_scale`."""
    weight = weights[f"{matrix}.weight"]
    bias = weights.get(f"{matrix}.bias")
    bias = weight.new_zeros(weight.shape[0]) if bias is None else bias
    if out_scale != 1.0:
        weight, bias = weight * out_scale, bias * out_scale
    if branch.scaled is not None:
        scale = weights[f"{name}.scale"]
        weight, bias = weight * scale[:, None], bias * scale
    return weight, bias


def plain_norm(branch: Residual, name: str, weights: Weights) -> Weights:
    """A norm's own weights after its gain and bias have moved on: 1 and 0."""
    own = {key: tensor for key, tensor in weights.items() if key.startswith(f"{name}.norm.")}
    return {key: torch.zeros_like(it) if key.endswith(".bias") else torch.ones_like(it) for key, it in own.items()}
