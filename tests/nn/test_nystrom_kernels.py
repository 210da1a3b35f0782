"""The Triton kernels of Nyström attention against the plain formulas in float64: interpreted here, compiled on a
GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.nn import launch
from manyheads.nn import nystrom as plain
from manyheads.spec.parts import Attention, Nystrom
from manyheads.train.step import Captured

GPU = pytest.mark.gpu
# batch, heads, tokens, head_dim, landmarks
SMALL = [(2, 2, 153, 12, 10), (1, 1, 151, 8, 2)]  # segments of two lengths; of more tokens than a block
SHAPES = [*SMALL, (1, 3, 517, 32, 64), (2, 2, 1000, 64, 50), (1, 2, 1000, 32, 128), (1, 2, 500, 128, 16)]


def away(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the largest magnitude."""
    return ((a.double().cpu() - b.double().cpu()).abs().max() / b.abs().max().clamp_min(1e-30)).item()


def results(f: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """Value and gradients."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    y = f(*inputs)
    probe = torch.randn(y.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return [y.detach(), *torch.autograd.grad(y, inputs, probe.to(y))]


def compare(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor, device: str, limit: float
) -> None:
    """`ours` on `device` and `theirs` in float64 give the same value and gradients."""
    expected = results(theirs, *(t.double() for t in inputs))
    for i, (a, b) in enumerate(zip(results(ours, *(t.to(device) for t in inputs)), expected, strict=True)):
        assert away(a, b) < limit, f"{'value' if i == 0 else f'gradient {i}'}: {away(a, b):.1e}"


def filtered(x: Tensor, w: Tensor, mask: Tensor | None) -> Tensor:
    heads, taps = w.shape
    x = x if mask is None else x * mask[..., None]
    image = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return F.conv2d(image, w[:, None, :, None], padding=(taps // 2, 0), groups=heads).transpose(1, 2).flatten(2)


def operators(device: str, shape: tuple[int, ...], limit: float = 2e-5) -> None:
    """Each operator beside its formula, masked and not; queries, keys and values as slices of one projection."""
    from manyheads.nn import filter_kernels
    from manyheads.nn import nystrom_ops as ops

    batch, heads, tokens, dim, marks = shape
    generator = torch.Generator().manual_seed(0)
    draw = lambda *size: torch.randn(size, generator=generator)  # noqa: E731
    q, k, v = draw(batch, tokens, 3, heads, dim).permute(2, 0, 3, 1, 4)
    q_marks, k_marks, w = draw(3, batch, heads, marks, dim)
    attend = F.scaled_dot_product_attention
    mask = torch.rand(batch, tokens, generator=generator) > 0.3
    mask[0, : tokens // 2] = False  # whole parts without a real token
    x, taps = draw(batch, tokens, 3 * heads * dim)[..., heads * dim : 2 * heads * dim], draw(heads, 7)
    compare(ops.many, attend, q, k_marks, w, device=device, limit=limit)
    compare(
        lambda *t: torch.cat(ops.landmarks_of(*t, marks)),
        lambda *t: torch.cat([plain.means(x, marks) for x in t]),
        q,
        k,
        device=device,
        limit=limit,
    )
    for real in (None, mask):
        there = None if real is None else real.to(device)
        keys = None if real is None else real[:, None, None]
        compare(
            lambda *t, r=there: ops.few(*t, r),
            lambda *t, m=keys: attend(*t, attn_mask=m),
            q_marks,
            k,
            v,
            device=device,
            limit=limit,
        )
        compare(
            lambda *t, r=there: filter_kernels.conv(*t, r),
            lambda *t, r=real: filtered(*t, r),
            x,
            taps,
            device=device,
            limit=limit,
        )

        def ours(*t: Tensor, r: Tensor | None = there) -> Tensor:
            return torch.cat(ops.few_and_inverse(*t, r, 6, False), dim=-1)

        def formula(*t: Tensor, m: Tensor | None = keys) -> Tensor:
            return torch.cat((attend(t[0], t[2], t[3], attn_mask=m), plain.inverse_map(*t[:2], 6)), dim=-1)

        if marks <= plain.INVERTED:
            compare(ours, formula, q_marks, k_marks, k, v, device=device, limit=limit)
    if 2 < marks <= plain.INVERTED:  # two columns of the map have the largest sum
        asks, keys = 1 + 0.3 * draw(1, 1, marks, dim), 0.3 * draw(1, 1, marks, dim)
        keys[:, :, :2] = 2
        keys /= (
            dim**0.5
        )  # the two lead the others by 2 at any head_dim; by more, the queries' gradient cancels to noise
        compare(
            lambda *t: ops.few_and_inverse(*t, k[:1, :1].to(device), v[:1, :1].to(device), None, 1, False)[1],
            lambda *t: plain.inverse_map(*t, 1),
            asks,
            keys,
            device=device,
            limit=limit,
        )


def whole(device: str) -> None:
    """`nystrom` by kernels beside itself by plain products: landmarks that one kernel inverts and more, masked or
    not."""
    draw = torch.Generator().manual_seed(1)
    for landmarks, dtype, limit in ((20, torch.float32, 2e-5), (70, torch.float32, 2e-5), (20, torch.bfloat16, 2e-2)):
        q, k, v = torch.randn(2, 150, 3, 2, 16, generator=draw).to(dtype).permute(2, 0, 3, 1, 4)
        for mask in (None, padded(2, 150)):
            there = None if mask is None else mask.to(device)
            compare(
                lambda *t, n=landmarks, r=there: plain.nystrom(*t, n, 6, r),
                lambda *t, n=landmarks, r=mask: plain.nystrom(*t, n, 6, r, fused=False),
                q,
                k,
                v,
                device=device,
                limit=limit,
            )


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with PyTorch for CUDA only")
def test_kernels_are_their_formulas_when_interpreted() -> None:
    """Triton decides at import whether to interpret, hence a process of its own."""
    env = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-P", str(Path(__file__))], env=env, check=True)


@pytest.mark.unchecked
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_sample_too_large_for_offsets_of_32_bits_is_seen(dynamic: bool) -> None:
    width = 3 * 768
    tokens = launch.FARTHEST // width + 2
    far = torch.empty(1, tokens, 12, 64, device="meta").as_strided((2, 12, tokens, 64), (tokens * width, 64, width, 1))
    measured = torch.compile(lambda x: x + (launch.reach(x) < launch.FARTHEST), backend="eager", dynamic=dynamic)
    assert launch.reach(far) >= launch.FARTHEST > launch.reach(far[:, :, :-2])
    assert [measured(torch.zeros(2, n, 3)).sum() for n in (4, 5)] == [24, 30]


# ----------------------------------------------------------------------------------------------------------- on a GPU
def blocks(heads: int = 2, head_dim: int = 32, landmarks: int = 64) -> plain.NystromAttention:
    torch.manual_seed(0)
    return plain.NystromAttention(48, Attention(heads, head_dim, mix=Nystrom(landmarks, conv=35)))


def padded(batch: int, tokens: int) -> Tensor:
    return torch.arange(tokens) < torch.linspace(tokens, 3, batch).long()[:, None]


@GPU
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_are_their_formulas(shape: tuple[int, ...]) -> None:
    operators("cuda", shape)


@GPU
def test_the_whole_is_its_formula() -> None:
    whole("cuda")


@GPU
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 2e-4), (torch.bfloat16, 2e-2)])
def test_a_gpu_computes_what_a_cpu_does(masked: bool, dtype: torch.dtype, limit: float) -> None:
    q, k, v = (torch.randn(4, 3, 700, 16, generator=torch.Generator().manual_seed(i)).to(dtype) for i in range(3))
    mask = padded(4, 700) if masked else None
    assert plain.backend(q.cuda(), 32) == "triton"
    compare(
        lambda *t: plain.nystrom(*t, 32, 6, None if mask is None else mask.cuda()),
        lambda *t: plain.nystrom(*t, 32, 6, mask),
        q,
        k,
        v,
        device="cuda",
        limit=limit,
    )


@GPU
def test_double_precision_stays_double() -> None:
    made, x = blocks().double(), torch.randn(2, 300, 48, dtype=torch.float64)
    here = made(x)
    assert away(made.cuda()(x.cuda()), here) < 1e-12


@GPU
def test_the_same_inputs_give_the_same_bits_and_a_sample_is_its_own() -> None:
    made, x, mask = blocks().cuda(), torch.randn(4, 1000, 48).cuda(), padded(4, 1000).cuda()
    for seen in (None, mask):
        first, again = (results(lambda t, seen=seen: made(t, seen), x) for _ in range(2))
        assert [away(a, b) for a, b in zip(first, again, strict=True)] == [0.0, 0.0]
    for i in range(4):
        real = int(mask[i].sum())
        assert away(made(x[i : i + 1, :real]), made(x, mask)[i : i + 1, :real]) < 1e-5


@GPU
def test_a_recorded_step_gives_what_the_step_gives() -> None:
    """What runs on a stream of its own has to come back before a recording may end."""
    made, x = blocks().cuda(), torch.randn(4, 512, 48).cuda()

    def step() -> Tensor:
        made.zero_grad(set_to_none=True)
        loss = made(x).square().mean()
        loss.backward()
        return torch.cat([p.grad.flatten() for p in made.parameters()])

    expected = step()
    recorded = Captured(step)
    for _ in range(5):  # three as they are, then the recording, then a replay
        assert away(recorded(), expected) == 0


@pytest.mark.unchecked
@GPU
@pytest.mark.parametrize("masked", [False, True])
def test_compiles_as_one_graph_under_autocast(masked: bool) -> None:
    made, x = blocks().cuda(), torch.randn(4, 512, 48).cuda()
    mask = padded(4, 512).cuda() if masked else None
    fast = torch.compile(made, fullgraph=True)
    found = []
    for model in (fast, made):
        with torch.autocast("cuda", torch.bfloat16):
            found.append(results(lambda t, model=model: model(t, mask), x))
    for a, b in zip(*found, strict=True):
        assert a.isfinite().all()
        assert away(a, b) < 3e-2


def traced() -> None:
    """In one compiled graph every kernel is one operator, forward and backward, and gives the same numbers. Gradients
    of what attention gives, short attention's too, are handed on as they lie."""
    from manyheads.nn import filter_kernels, short_kernels
    from manyheads.nn import nystrom_ops as ops

    def everything(q: Tensor, k: Tensor, v: Tensor, own: Tensor, taps: Tensor) -> Tensor:
        q_marks, k_marks = ops.landmarks_of(q, k, 6)
        answers, z = ops.few_and_inverse(q_marks, k_marks, k, v, None, 2, True)
        heads = ops.many(q, k_marks, z @ answers + ops.few(own[None], k, v, None)) + short_kernels.short(q, k, v)
        heads = heads.transpose(1, 2).flatten(2)
        return heads + filter_kernels.conv(v.transpose(1, 2).flatten(2), taps, None)

    q, k, v = torch.randn(1, 40, 3, 2, 8).permute(2, 0, 3, 1, 4)
    given = (q, k, v, torch.randn(2, 6, 8), torch.randn(2, 5))
    graphs: list[str] = []

    def count(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph.code)
        return make_boxed_func(graph.forward)

    fast = torch.compile(everything, fullgraph=True, backend=aot_autograd(fw_compiler=count))
    for a, b in zip(results(fast, *given), results(everything, *given), strict=True):
        assert away(a, b) < 1e-5
    names = ["means", "few_inverse", "few", "many", "conv", "few_inverse_back", "few_back", "many_back", "conv_weight"]
    assert all(f"ops.manyheads.{name}.default" in "".join(graphs) for name in names)
    back = next(graph for graph in graphs if "many_back" in graph)
    for name in ("many_back", "short_back"):
        assert "aten.clone" not in back[: back.index(name)]


if __name__ == "__main__":
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    launch.PROGRAMS = 8  # several parts each
    for shape in SMALL:
        operators("cpu", shape)
    plain.backend = lambda q, landmarks: "triton"
    whole("cpu")
    traced()
