"""Memory in closed form against PyTorch's own tracker: 5 % for ViT, 10 % for the others.

The tracker follows every tensor of a training step under fake tensors: nothing is computed, every byte is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.arch.count import activation_bytes, training_bytes
from manyheads.arch.quantities import Precision
from manyheads.arch.redesign import redesign
from manyheads.models.build import MODELS
from manyheads.spec.arch import Arch, with_residuals
from manyheads.spec.parts import Attention, Lm, Masked, Pair, Points, Residual, Softmax, Token
from manyheads.spec.recipe import Rates


def capped() -> Arch:
    """A GPT-2 whose scores and logits are capped, as those of Gemma 2."""
    arch = f.gpt2(384, 3, 6, 64, 1536, vocab=2000, tokens=128)

    def branch(residual: Residual) -> Residual:
        op = residual.op
        mix = Softmax(True, cap=50.0)
        return replace(residual, op=replace(op, mix=mix)) if isinstance(op, Attention) else residual

    return replace(with_residuals(arch, branch), head=Lm(cap=30.0))


# fmt: off
CASES: dict[str, tuple[Callable[[], Arch], int]] = {
    "vit": (lambda: zoo.get("vit_ti"), 4),
    "vit_lean": (lambda: redesign(zoo.get("vit_s"), depth=9, heads=13, head_dim=40, mlp_dim=768), 4),
    "deit": (lambda: zoo.get("deit_ti_distilled"), 4),
    "xcit": (lambda: redesign(zoo.get("xcit_s12"), depth=3), 8),
    "tnt": (lambda: redesign(zoo.get("tnt_s"), depth=2), 6),
    "tnt_legacy": (lambda: redesign(zoo.get("tnt_s_legacy"), depth=2, heads=8), 6),
    "volo": (lambda: redesign(zoo.get("volo_d1"), depth=(2, 1, 2, 1)), 6),
    "davit": (lambda: redesign(zoo.get("davit_t"), depth=(1, 1, 1, 1)), 8),
    "crammed_bert": (lambda: f.crammed_bert(384, 3, 6, 64, 768, vocab=2000), 32),
    "bert": (lambda: f.bert(384, 3, 6, 64, 1536, vocab=2000, tokens=128), 32),
    "gpt2": (lambda: f.gpt2(384, 3, 6, 64, 1536, vocab=2000, tokens=128), 32),
    "gpt2_tinystories": (lambda: f.stories(256, 3, 8, 30, 1024, vocab=2000), 64),
    "opt": (lambda: f.opt(384, 3, 6, 64, 1536, vocab=2000, tokens=128), 32),
    "gpt_neox": (lambda: f.gpt_neox(384, 3, 6, 64, 1536, vocab=2000, tokens=128), 32),
    "windows": (lambda: f.windowed(f.gpt2(384, 3, 6, 64, 1536, vocab=2000, tokens=128), 32), 32),
    "capped": (capped, 32),
    "nystromformer": (lambda: redesign(zoo.get("nystromformer_listops"), depth=1, heads=4), 8),
    "nystromformer_pair": (lambda: redesign(zoo.get("nystromformer_retrieval"), depth=4), 2),
}
# fmt: on


def tracked(arch: Arch, batch: int, precision: Precision, fused: bool) -> tuple[int, int]:
    """Bytes of activations at the end of the forward pass, and the peak of the second training step."""
    file, name = MODELS[arch.family]
    with FakeTensorMode():
        model = getattr(import_module(f"manyheads.models.{file}"), name)(arch, Rates())
        for part in model.modules():
            if hasattr(part, "fused"):
                part.fused = fused
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        x = fake_input(arch, batch)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for turn in range(2):
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp"):
                    out = model(x)
                    if isinstance(arch.head, Lm | Masked):
                        labels = torch.zeros(out.shape[:-1].numel(), dtype=torch.long)
                        loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), labels)
                    else:
                        loss = out.float().square().mean()
                if turn == 1:
                    now = total(tracker.get_tracker_snapshot("current"), "ACT")
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if turn == 0:
                    tracker.reset_mod_stats()
    return now, total(tracker.get_tracker_snapshot("peak"), "Total")


def total(snapshot: dict, kind: str) -> int:
    """Bytes of one kind over all devices."""
    return sum(
        size
        for by_kind in snapshot.values()
        for name, size in by_kind.items()
        if str(name).rsplit(".", maxsplit=1)[-1] == kind
    )


def fake_input(arch: Arch, batch: int) -> torch.Tensor:
    """A batch of nothing in the right shape."""
    embed, tokens = arch.embed, arch.stages[0].tokens
    if isinstance(embed, Token):
        shape = (batch, 2, tokens) if isinstance(arch.head, Pair) else (batch, tokens)
        return torch.zeros(shape, dtype=torch.long)
    if isinstance(embed, Points):
        return torch.zeros(batch, tokens, embed.dim)
    return torch.zeros(batch, embed.channels, embed.image, embed.image)


MODES: tuple[tuple[Precision, bool], ...] = (("fp32", False), ("fp32", True), ("amp", True))
# autocast computes the softmax of a map in float32 on a GPU, as the formula says, and in half precision on a CPU
ELSEWHERE = (("capped", MODES[2]),)
QUICK = ("vit", "gpt2")  # in every mode; the others in one, and in all by `make test-all`


@pytest.mark.parametrize(
    ("name", "precision", "fused"),
    [
        pytest.param(name, *mode, marks=() if name in QUICK or mode == MODES[0] else pytest.mark.slow)
        for name in CASES
        for mode in MODES
        if (name, mode) not in ELSEWHERE
    ],
)
def test_memory_is_what_the_tracker_sees(name: str, precision: Precision, fused: bool) -> None:
    make, batch = CASES[name]
    arch = make()
    bound = 0.05 if name.startswith(("vit", "deit")) else 0.10
    kept, peak = tracked(arch, batch, precision, fused)
    copies = 2 * sum(p.numel() for p in _matrices(arch)) if precision == "amp" else 0
    assert activation_bytes(arch, batch, precision, fused) + copies == pytest.approx(kept, rel=bound)
    assert training_bytes(arch, batch, precision, fused, gradients=False) == pytest.approx(peak, rel=bound)


def _matrices(arch: Arch) -> list[torch.Tensor]:
    """Weights that autocast copies: matrices of linear maps and kernels of convolutions."""
    from manyheads.models.build import build

    model = build(arch, device="meta")
    return [
        p
        for part in model.modules()
        if isinstance(part, torch.nn.Linear | torch.nn.Conv2d)
        for p in part.parameters(recurse=False)
    ]
