"""Proof that a model is its original: the same weights give the same outputs and gradients, both ways, in float64."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from manyheads.arch.count import params
from manyheads.models.build import build
from manyheads.models.twins.tensors import TwinTensor, back, into
from manyheads.spec.arch import Arch

RESULTS = Path(__file__).parents[2] / "build" / "parity"
TOLERANCE = 1e-9


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Every parameter and buffer of `module` random, in float64: most are constant at initialisation and would hide a
    tensor loaded into the wrong place."""
    generator = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        kept = module.state_dict().keys()  # tables that are made and never saved stay as they are
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not tensor.is_floating_point() or name not in kept:
                continue
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            if "running_var" in name:
                tensor.copy_(noise.abs() + 0.5)
            else:
                fan = tensor[0].numel() if tensor.ndim > 1 else 1
                tensor.copy_(noise / max(1.0, fan) ** 0.5 + (1.0 if tensor.ndim <= 1 else 0.0))
    return module


def agree(
    name: str,
    twin_name: str,
    arch: Arch,
    twin: nn.Module,
    entries: Sequence[TwinTensor],
    call_ours: Callable[[nn.Module], Tensor],
    call_twin: Callable[[nn.Module], Tensor],
    state_of: Callable[[nn.Module], dict[str, Tensor]] | None = None,
    load_into: Callable[[nn.Module, dict[str, Tensor]], None] | None = None,
    unread: Sequence[str] = (),
) -> None:
    """Randomise the twin, load it here, compare outputs and every gradient; then export ours, load it there, again.

    `call_*` run a model on one fixed input. `state_of` picks the twin's tensors (default: its state dict without
    counters), `load_into` puts ours back (default: strict load). `unread` are tensors of ours that this input does not
    read, so that no gradient reaches them."""
    state_of = state_of or (lambda m: {k: v for k, v in m.state_dict().items() if "num_batches" not in k})
    load_into = load_into or (lambda m, s: _load(m, s))
    randomise(twin).eval()
    ours = build(arch).double().eval()
    ours.load_state_dict(into(entries, state_of(twin)), strict=False)
    loaded = {e.ours for e in entries}
    left = [k for k in ours.state_dict() if k not in loaded and "num_batches" not in k]
    assert not left, f"not covered by the map: {left}"
    read = [entry for entry in entries if entry.ours not in unread]
    outputs, grads = _compare(ours, twin, read, call_ours, call_twin, state_of)

    randomise(ours, seed=1)
    load_into(twin, back(entries, ours.state_dict()))
    outputs2, grads2 = _compare(ours, twin, read, call_ours, call_twin, state_of)
    record(name, twin_name, max(outputs, outputs2), max(grads, grads2), params(arch).total)
    assert max(outputs, outputs2) <= TOLERANCE
    assert max(grads, grads2) <= TOLERANCE


def _load(module: nn.Module, state: dict[str, Tensor]) -> None:
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert all("num_batches" in name for name in missing), missing


def _compare(ours, twin, entries, call_ours, call_twin, state_of) -> tuple[float, float]:
    """Largest difference of outputs and of gradients, each relative to the largest magnitude (at least 1)."""
    a, b = call_ours(ours), call_twin(twin)
    assert a.shape == b.shape
    assert b.abs().max() > 1e-3, "the twin's output is nothing: the comparison would prove nothing"
    output = ((a - b).abs().max() / b.abs().max().clamp_min(1)).item()
    probe = torch.randn(a.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for model, out in ((ours, a), (twin, b)):
        model.zero_grad()
        (out * probe).sum().backward()
    mine = {k: p.grad for k, p in ours.named_parameters()}
    theirs = {k: p.grad for k, p in twin.named_parameters()}
    worst = 0.0
    for entry in entries:
        if entry.ours not in mine or any(name not in theirs for name in entry.theirs):
            continue  # buffers
        g = mine[entry.ours]
        assert g is not None, f"no gradient reaches {entry.ours}"
        for left, name in zip(entry.how.back(g), entry.theirs, strict=True):
            right = theirs[name]
            right = torch.zeros_like(left) if right is None else right
            worst = max(worst, ((left - right).abs().max() / right.abs().max().clamp_min(1)).item())
    return output, worst


def record(name: str, twin: str, output: float, gradient: float, parameters: int) -> None:
    """Keep a line for docs/parity.md (written by `make docs`)."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    line = {
        "model": name,
        "twin": twin,
        "output": output,
        "gradient": gradient,
        "params": parameters,
        "torch": torch.__version__,
    }
    target = RESULTS / f"{name}.json"
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(line))
    partial.replace(target)
