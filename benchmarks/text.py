"""`python -m benchmarks.text`: our language models beside transformers', in training and in generation.

All contestants have the same optimizer, bf16 autocast and torch.compile; each model computes its own loss. `captured`
is the step of our training loop, a CUDA graph. transformers' GPT-2 has no head_dim of its own, so where it cannot build
our shape the peer is the nearest one: for the TinyStories GPT 8 heads of 64 (inner 512, not 504) and a tied head, 63.6
M parameters where ours has 89.2 M. Vocabularies have the published sizes, such as 50,257."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.arch import families, zoo
from manyheads.arch.redesign import redesign
from manyheads.models.build import build
from manyheads.models.generate import Sampling, generate
from manyheads.spec.arch import Arch

from . import measure
from .measure import Contestant, arguments, race, write
from .models import hf_gpt2, our_loss, ours, their_loss, train_step

VOCAB = 50_257


def gpt(case: str, batch: int, tokens: int, arch: Arch, peer: dict[str, Any]) -> dict[str, Any]:
    """Train a GPT beside transformers' GPT-2 with the settings `peer`."""
    ids = torch.randint(0, VOCAB, (batch, tokens + 1), device="cuda")
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    label = f"transformers {peer['n_layer']}x{peer['n_head']}x{peer['n_embd'] // peer['n_head']}"
    contestants = ours(arch, x, y, our_loss)
    settings = {"vocab_size": VOCAB, "n_positions": tokens} | peer
    contestants.append(Contestant(label, lambda: train_step(hf_gpt2(**settings), x, y, their_loss)))
    return race(case, contestants, work=batch * tokens, unit="tok/s")


def bert(case: str, batch: int, arch: Arch, depth: int) -> dict[str, Any]:
    """Train a masked language model that predicts a quarter of the tokens. transformers' BERT has no gated MLP; its
    plain MLP of 2,304 units has as many parameters as our gated one of 1,536."""
    tokens, vocab = 128, 32_768
    ids = torch.randint(5, vocab, (batch, tokens), device="cuda")
    at = torch.rand(batch, tokens, device="cuda").argsort(dim=1)[:, : tokens // 4].sort(dim=1).values
    targets = ids.gather(1, at)
    labels = torch.full_like(ids, -100).scatter(1, at, targets)

    def sparse(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = model(x, at=at, targets=y)
        return loss

    def whole(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = model(x, labels=y).loss
        return loss

    contestants = ours(arch, ids, targets, sparse)
    contestants.append(
        Contestant(f"transformers {depth}x12x64", lambda: train_step(hf_bert(depth), ids, labels, whole))
    )
    return race(case, contestants, work=batch * tokens, unit="tok/s")


def hf_bert(depth: int) -> nn.Module:
    """transformers' BERT with fused attention and no dropout."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=32_768,
        num_hidden_layers=depth,
        intermediate_size=2304,
        max_position_embeddings=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config._attn_implementation = "sdpa"
    return BertForMaskedLM(config)


def decode(
    name: str, arch: Arch, peer: dict[str, Any] | None = None, static: bool = False, new: int = 256, turns: int = 5
) -> dict[str, Any]:
    """Milliseconds per token of greedy generation in bf16, for a batch of one, after a prompt of 16 tokens. `static`
    gives transformers its static cache, which it compiles; that takes minutes, so it is a case of its own."""
    prompt = torch.randint(0, VOCAB, (1, 16), device="cuda")
    model = build(arch, device="cuda").to(torch.bfloat16)
    writers: dict[str, Callable[[], Any]] = {
        "manyheads": lambda: generate(model, prompt, new, sampling=Sampling(0)),
        "manyheads, not captured": lambda: generate(model, prompt, new, sampling=Sampling(0), capture=False),
    }
    if peer is not None:
        other = hf_gpt2(vocab_size=VOCAB, n_positions=1024, **peer).cuda().eval().to(torch.bfloat16)
        mask = torch.ones_like(prompt)
        usual = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        label = "transformers, static cache, compiled" if static else "transformers"
        cache = {"cache_implementation": "static"} if static else {}
        writers[label] = lambda: other.generate(prompt, attention_mask=mask, **usual, **cache)
    case = f"decode {name} batch 1" + (", static" if static else "")
    result: dict[str, Any] = {"case": case, "unit": "ms a token", "new": new, "contestants": {}}
    for who, write_text in writers.items():
        try:
            for _ in range(2):
                write_text()
            times = []
            for _ in range(turns):
                measure.synchronise()
                start = time.perf_counter()
                write_text()
                measure.synchronise()
                times.append((time.perf_counter() - start) / new * 1e3)
        except Exception as error:  # a peer that cannot run is reported, not hidden
            print(f"  {who} failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        result["contestants"][who] = {"ms": statistics.median(times), "fastest": min(times), "slowest": max(times)}
        print(f"{result['case']:28} {who:40} {statistics.median(times):8.3f} ms a token", flush=True)
    return result


def cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """All cases by name."""
    whole = families.gpt2(768, 12, 12, 64, 3072, vocab=VOCAB, tokens=1024, positions=1024)
    lean = redesign(whole, depth=4, heads=16)
    stories, crammed = zoo.get("gpt2_tinystories"), zoo.get("crammed_bert")
    base = {"n_layer": 12, "n_head": 12, "n_embd": 768}
    small = {"n_head": 8, "n_embd": 512, "activation_function": "relu"}
    return {
        "gpt2": lambda: gpt("train gpt2 T=1024", 64, 1024, whole, base),
        "gpt2_lean": lambda: gpt("train gpt2 4x16x64 T=1024", 64, 1024, lean, base | {"n_layer": 4}),
        "stories": lambda: gpt("train stories 12x12x42 T=64", 128, 64, stories, small | {"n_layer": 12}),
        "stories_lean": lambda: gpt(
            "train stories 4x16x32 T=64",
            128,
            64,
            redesign(stories, depth=4, heads=16, head_dim=32),
            small | {"n_layer": 4},
        ),
        "crammed": lambda: bert("train crammed 16x12x64", 256, crammed, 16),
        "crammed_split": lambda: bert(
            "train crammed 10x24x32", 256, redesign(crammed, depth=10, heads=24, policy="split"), 10
        ),
        "crammed_lean": lambda: bert("train crammed 10x24x64", 256, redesign(crammed, depth=10, heads=24), 10),
        "decode": lambda: decode("gpt2", whole, base),
        "decode_lean": lambda: decode("gpt2 4x16x64", lean),
        "decode_static": lambda: decode("gpt2", whole, base, static=True),
    }


def main() -> None:
    """Run the chosen cases and write the record."""
    parser = arguments(__doc__, "bench_text.json")
    parser.add_argument("--only", default="", help="cases, separated by commas; default: all")
    parser.add_argument(
        "--compile-only",
        action="store_true",
        help="only fill the compiler's cache; several processes may do so at once",
    )
    args = parser.parse_args()
    measure.COMPILE_ONLY = args.compile_only
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64
    results = []
    for name in args.only.split(",") if args.only else cases():
        results.append(cases()[name]())
        write(args.out, results)


if __name__ == "__main__":
    main()
