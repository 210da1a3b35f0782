"""`python -m benchmarks.models`: our models beside timm's, transformers' and a plain GPT, in training and in inference.

All contestants have the same loop, loss and optimizer: bf16 autocast and torch.compile on a GPU, eager float32 on a
CPU. Inference has batches of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.arch import families, zoo
from manyheads.arch.redesign import redesign
from manyheads.models.build import build
from manyheads.nn.embed import half_stream
from manyheads.spec.arch import Arch
from manyheads.train.step import Captured

from . import measure
from .measure import Contestant, arguments, race, write
from .plain_gpt import PlainGPT

Step = Callable[[], Any]
LEAN_VIT = redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536)
VOCAB = 50304
TUNED = False  # --tuned: the compiler tries several launches of each kernel, for every contestant

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def plain_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the model's logits; transformers returns them in an object."""
    out = model(x)
    logits = getattr(out, "logits", out)
    return F.cross_entropy(logits.flatten(0, -2), y.flatten())


def our_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss that our language models compute themselves."""
    return model(x, targets=y)


def their_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss that a transformers model computes itself; it shifts the labels."""
    return model(x, labels=x).loss


def train_step(
    model: nn.Module, batch: Tensor, labels: Tensor, loss: Loss = plain_loss, captured: bool = False
) -> Step:
    """A training step: forward, loss, backward, fused AdamW. `captured` replays it as a CUDA graph, as our training
    loop does."""
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=captured)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return loss(model, x, y)

    compiled = torch.compile(loss_of, options={"coordinate_descent_tuning": True} if TUNED else None)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = Captured(step) if captured else step
    return lambda: run(batch, labels)


def wide_timm(depth: int, heads: int, head_dim: int, mlp_ratio: float) -> nn.Module:
    """timm's ViT-B with heads of any size, through the attention class that its constructor accepts."""
    import timm
    from timm.layers import Attention

    class Wide(Attention):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"attn_head_dim": head_dim}))

    return timm.create_model("vit_base_patch16_224", depth=depth, num_heads=heads, mlp_ratio=mlp_ratio, attn_layer=Wide)


def images(batch: int, size: int = 224) -> tuple[Tensor, Tensor]:
    """Random images and labels on the GPU."""
    return torch.randn(batch, 3, size, size, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")


def vision(case: str, batch: int, arch: Arch, peers: dict[str, Callable[[], nn.Module]]) -> dict[str, Any]:
    """Train one vision model beside its peers."""
    x, y = images(batch)
    contestants = ours(arch, x, y)
    for name, make in peers.items():
        contestants.append(Contestant(name, lambda make=make: train_step(make(), x, y)))
    return race(case, contestants, work=batch, unit="img/s")


def ours(arch: Arch, x: Tensor, y: Tensor, loss: Loss = plain_loss) -> list[Contestant]:
    """Our model with its residual stream in half precision: in the peers' loop, and with its step captured."""
    return [
        Contestant(name, lambda how=how: train_step(half_stream(build(arch, device="cuda")), x, y, loss, how))
        for name, how in (("manyheads", False), ("manyheads, captured", True))
    ]


def hf_vit() -> nn.Module:
    """transformers' ViT-B with fused attention."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(num_labels=1000, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa"
    return ViTForImageClassification(config)


def hf_gpt2(**settings: Any) -> nn.Module:
    """transformers' GPT-2 with fused attention and no dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **settings)
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config)


def gpt(case: str, batch: int, tokens: int, depth: int, heads: int, peers: tuple[str, ...]) -> dict[str, Any]:
    """Train a GPT of width 768 beside transformers' and the plain one."""
    ids = torch.randint(0, VOCAB, (batch, tokens + 1), device="cuda")
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    arch = families.gpt2(768, depth, heads, 64, 3072, vocab=VOCAB, tokens=tokens, positions=tokens)
    settings = {"vocab_size": VOCAB, "n_layer": depth, "n_head": heads, "n_positions": tokens, "use_cache": False}
    makers: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
        "transformers": (lambda: hf_gpt2(**settings), their_loss),
        "plain GPT": (lambda: PlainGPT(VOCAB, tokens, 768, depth, heads, 64), plain_loss),
    }
    contestants = ours(arch, x, y, our_loss)
    for name in peers:
        contestants.append(Contestant(name, lambda pair=makers[name]: train_step(pair[0](), x, y, pair[1])))
    return race(case, contestants, work=batch * tokens, unit="tok/s")


def graphed(model: nn.Module, batch: Tensor) -> Step:
    """Inference in bf16 for a batch of one, replayed as one CUDA graph of eager kernels."""
    model = model.cuda().eval().to(torch.bfloat16)

    def step() -> Tensor:
        with torch.inference_mode():
            out: Tensor = model(batch)
            return out

    return Captured(step)


def vit_pairs() -> dict[str, tuple[Arch, Callable[[], nn.Module]]]:
    """ViT-B and its lean form, each with timm's model of the same shape."""
    import timm

    return {
        "vit_b": (zoo.get("vit_b"), lambda: timm.create_model("vit_base_patch16_224")),
        "vit_b_lean": (LEAN_VIT, lambda: wide_timm(7, 16, 64, 2.0)),
    }


def latency() -> list[dict[str, Any]]:
    """Forward on the GPU for a batch of one: ViT-B and its lean form beside timm's."""
    x = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
    return [
        race(
            f"latency {name} batch 1",
            [
                Contestant("manyheads", lambda arch=arch: graphed(build(arch, device="cuda"), x)),
                Contestant("timm", lambda peer=peer: graphed(peer(), x)),
            ],
            work=1,
            unit="calls/s",
            steps=50,
        )
        for name, (arch, peer) in vit_pairs().items()
    ]


def cpu() -> list[dict[str, Any]]:
    """Forward on the CPU for a batch of one, in eager float32."""

    def call(model: nn.Module, x: Tensor) -> Step:
        model.eval()

        def step() -> None:
            with torch.inference_mode():
                model(x)

        return step

    x = torch.randn(1, 3, 224, 224)
    results = []
    for name, (arch, peer) in vit_pairs().items():
        contestants = [
            Contestant("manyheads", lambda arch=arch: call(build(arch), x)),
            Contestant("timm", lambda peer=peer: call(peer(), x)),
        ]
        results.append(race(f"cpu latency {name} batch 1", contestants, work=1, unit="calls/s", steps=5, rounds=41))
    return results


def cases() -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """All cases by name."""
    import timm

    def make(name: str, **settings: Any) -> Callable[[], nn.Module]:
        return lambda: timm.create_model(name, **settings)

    return {
        "vit": lambda: [vision("train vit_b batch 256", 256, zoo.get("vit_b"), {"timm": make("vit_base_patch16_224")})],
        "lean": lambda: [
            vision("train vit_b_lean batch 256", 256, LEAN_VIT, {"timm": lambda: wide_timm(7, 16, 64, 2.0)})
        ],
        "hf_vit": lambda: [vision("train vit_b batch 256, HF", 256, zoo.get("vit_b"), {"transformers": hf_vit})],
        "xcit": lambda: [
            vision("train xcit_s12 batch 128", 128, zoo.get("xcit_s12"), {"timm": make("xcit_small_12_p16_224")})
        ],
        "davit": lambda: [vision("train davit_t batch 128", 128, zoo.get("davit_t"), {"timm": make("davit_tiny")})],
        "gpt": lambda: [gpt("train gpt2 T=1024", 64, 1024, 12, 12, ("transformers", "plain GPT"))],
        "lean_gpt": lambda: [gpt("train gpt2_lean 4x16x64 T=1024", 64, 1024, 4, 16, ("plain GPT",))],
        "latency": latency,
        "cpu": cpu,
    }


def main() -> None:
    """Run the chosen cases and write the record."""
    parser = arguments(__doc__, "bench_models.json")
    parser.add_argument("--only", default="", help="cases, separated by commas; default: all that this machine can run")
    parser.add_argument(
        "--compile-only",
        action="store_true",
        help="only fill the compiler's cache; several processes may do so at once",
    )
    parser.add_argument(
        "--tuned", action="store_true", help="tune every contestant's kernels; compilation takes longer"
    )
    args = parser.parse_args()
    globals()["TUNED"] = args.tuned
    measure.COMPILE_ONLY = args.compile_only
    runners = cases()
    chosen = args.only.split(",") if args.only else [n for n in runners if (n == "cpu") != torch.cuda.is_available()]
    results = []
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64  # each contestant is one compilation of the same loss function
    for name in chosen:
        results += runners[name]()
        write(args.out, results)


if __name__ == "__main__":
    main()
