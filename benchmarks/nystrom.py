"""`python -m benchmarks.nystrom`: forward and backward of Nyström attention beside transformers' and beside exact
attention.

The shapes are those of Long Range Arena: batch 32, 2 heads of 32, 64 landmarks. The length from which Nyström attention
is faster than fused exact attention can be read off the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.nystrom import NystromAttention
from manyheads.spec.parts import Attention, Nystrom, Softmax
from manyheads.train.step import Captured

from . import measure
from .measure import Contestant, arguments, race, write


def both_ways(
    module: nn.Module, x: Tensor, call: Callable[[nn.Module, Tensor], Tensor], *, amp: bool, fast: bool, captured: bool
) -> Callable[[], Any]:
    """Forward and backward of one attention: launched at every step, or captured once and replayed as a CUDA graph."""

    def forward(t: Tensor) -> Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=amp):
            return call(module, t).float().square().mean()

    run = torch.compile(forward, dynamic=False) if fast else forward  # one program for each length

    def step() -> Tensor:
        loss = run(x)
        loss.backward()
        module.zero_grad(set_to_none=True)
        x.grad = None
        return loss.detach()

    return Captured(step) if captured else step


def theirs(width: int, heads: int, tokens: int, landmarks: int, conv: int) -> nn.Module:
    """transformers' self-attention of the same shape, without its output projection."""
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = NystromformerConfig(
        hidden_size=width,
        num_attention_heads=heads,
        num_landmarks=landmarks,
        segment_means_seq_len=tokens,
        attention_probs_dropout_prob=0.0,
    )
    config.__dict__["conv_kernel_size"] = (
        conv or None
    )  # validation refuses the None that transformers' own code tests for
    return NystromformerSelfAttention(config)


def case(tokens: int, heads: int, batch: int, device: str, captured: bool) -> dict[str, Any]:
    """Race the contestants at one length."""
    width, landmarks, gpu = heads * 32, 64, device == "cuda"
    how = {"amp": gpu, "fast": gpu, "captured": captured}
    x = torch.randn(batch, tokens, width, device=device, requires_grad=True)

    def ours(mix: Nystrom | Softmax, kind: type[nn.Module]) -> Callable[[], Callable[[], Any]]:
        def make() -> Callable[[], Any]:
            module = kind(width, Attention(heads, 32, mix=mix)).to(device)
            return both_ways(module, x, lambda m, t: m(t), **how)

        return make

    def peer(amp: bool) -> Callable[[], Callable[[], Any]]:
        def make() -> Callable[[], Any]:  # an output projection is added, since ours has one
            whole = nn.ModuleList([theirs(width, heads, tokens, landmarks, 0), nn.Linear(width, width)]).to(device)
            return both_ways(whole, x, lambda m, t: m[1](m[0](t)[0]), **(how | {"amp": amp}))

        return make

    contestants = [
        Contestant("manyheads", ours(Nystrom(landmarks), NystromAttention)),
        Contestant("transformers", peer(gpu)),
        *([Contestant("transformers, float32", peer(False))] if gpu else []),
        Contestant("exact, fused", ours(Softmax(), SoftmaxAttention)),
    ]
    name = f"nystrom N={tokens} h={heads}{' captured' if captured else ''}"
    return race(name, contestants, work=batch, unit="seq/s", steps=5, rounds=7)


def errors(tokens: int, heads: int, scale: float) -> dict[str, float]:
    """Largest error of the forward under bf16 autocast against the same attention in float64, relative to the largest
    value. `scale` multiplies queries and keys, since trained attention is sharper than initial attention."""
    from manyheads.nn.nystrom import nystrom

    draw = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(4, tokens, heads * 32, generator=draw, device="cuda")
    module = theirs(heads * 32, heads, tokens, 64, 0).cuda()
    with torch.no_grad():
        for layer in (module.query, module.key):
            layer.weight.normal_(std=scale / (heads * 32) ** 0.5, generator=draw)
        module.value.weight.normal_(std=(heads * 32) ** -0.5, generator=draw)

        def split(t: Tensor) -> Tensor:
            return t.unflatten(-1, (heads, 32)).transpose(1, 2)

        q, k, v = (layer(x) for layer in (module.query, module.key, module.value))
        with torch.autocast("cuda", torch.bfloat16):
            halves = [layer(x) for layer in (module.query, module.key, module.value)]
            ours = nystrom(*map(split, halves), 64, 6).transpose(1, 2).flatten(2)
            outputs = {"transformers": module(x)[0], "manyheads": ours}
        truth = nystrom(*(split(t.double()) for t in (q, k, v)), 64, 6).transpose(1, 2).flatten(2)
    return {name: ((y.double() - truth).abs().max() / truth.abs().max()).item() for name, y in outputs.items()}


def main() -> None:
    """Run all lengths and write the record."""
    parser = arguments(__doc__, "bench_nystrom.json")
    parser.add_argument("--tokens", default="1024,2048,4096,8192,16384", help="lengths, separated by commas")
    parser.add_argument("--captured-only", action="store_true", help="leave out the contestants without CUDA graph")
    parser.add_argument("--compile-only", action="store_true", help="only fill the compiler's cache")
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    measure.COMPILE_ONLY = args.compile_only
    torch._dynamo.config.recompile_limit = 64  # every contestant compiles the same function once more
    gpu = torch.cuda.is_available()
    results: list[dict[str, Any]] = []
    if gpu and not args.compile_only:
        for scale in (0.5, 1.0, 2.0):
            results.append({"case": f"error at N=4096, scale {scale}", "errors": errors(4096, 2, scale)})
            print(results[-1], flush=True)
    for tokens in map(int, args.tokens.split(",")):
        for captured in (False, True)[args.captured_only :] if gpu else (False,):
            results.append(case(tokens, 2, args.batch, "cuda" if gpu else "cpu", captured))
            write(args.out, results)


if __name__ == "__main__":
    main()
