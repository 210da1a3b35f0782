"""Every family on a GPU: half precision close to float32, gradients finite, the stream's precision as asked,
inductor."""

from __future__ import annotations

import pytest
import torch

from manyheads.models.build import build
from manyheads.nn.embed import half_stream
from manyheads.nn.sdpa import FEW, backend
from manyheads.spec.recipe import Rates

from .tiny import ORIGINALS, inputs, scalar, variants

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("half", [False, True])
def test_bf16_autocast_on_the_gpu(name: str, half: bool) -> None:
    arch = variants(name)["fixed"]
    exact = build(arch, seed=0).eval()(*inputs(arch))
    model = half_stream(build(arch, seed=0), half).cuda().eval()
    batch = inputs(arch, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rough = model(*batch)
        loss = rough.float().square().mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    assert (rough.float().cpu() - exact).abs().max() < 0.1 * exact.abs().max().clamp_min(1.0)


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["vit", "gpt2", "davit"])
def test_inductor_compiles_one_graph_and_trains(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, Rates(path=0.1), seed=0).cuda()
    batch = inputs(arch, device="cuda")
    compiled = torch.compile(model, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    losses = []
    for _ in range(4):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = scalar(compiled, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_the_attention_kernel_is_told_when_asked() -> None:
    """cuDNN on Hopper and later in half precision, PyTorch's own choice for float32 and for a single query; our own
    kernel in either precision where few tokens attend to each other."""
    q = torch.zeros(1, 2, FEW + 1, 64, device="cuda", dtype=torch.bfloat16)
    expected = "cudnn" if torch.cuda.get_device_capability()[0] >= 9 else "torch"
    assert backend(q) == expected
    assert backend(q.float()) == "torch"
    assert backend(q[:, :, :1]) == "torch"
    assert {backend(q[:, :, :FEW]), backend(q[:, :, :FEW].float())} == {"short"}
    assert backend(q[:, :, :FEW], causal=True) == expected
