"""`python -m benchmarks.kappa`: the speed and the error of kappa, and what a probe costs during training.

kappa is the condition number of a matrix. Ours, for many matrices at once, is compared with `torch.linalg`; the probe
runs every 50 steps of a ViT-B's training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from manyheads.arch import zoo
from manyheads.conditioning.probe import probe
from manyheads.conditioning.spectrum import edges, spectrum
from manyheads.models.build import build
from manyheads.nn.embed import half_stream

from .measure import Contestant, arguments, race, synchronise, write
from .models import images, train_step

TOKENS, INNER = 197, 768


def gram_eigen(x: Tensor) -> Tensor:
    """kappa from the eigenvalues of the float64 Gram matrix."""
    values = torch.linalg.eigvalsh(x.double() @ x.double().mT)
    return (values[..., -1] / values[..., 0]).sqrt()


def svd(x: Tensor) -> Tensor:
    """kappa from the singular values."""
    values = torch.linalg.svdvals(x)
    return values[..., 0] / values[..., -1]


def with_kappa(matrices: int, kappa: float, device: str) -> Tensor:
    """Float32 matrices whose kappa is known, with geometrically spaced singular values."""
    draw = torch.Generator(device).manual_seed(1)
    u = torch.linalg.qr(torch.randn(matrices, TOKENS, TOKENS, generator=draw, device=device, dtype=torch.float64)).Q
    v = torch.linalg.qr(torch.randn(matrices, INNER, TOKENS, generator=draw, device=device, dtype=torch.float64)).Q
    values = kappa ** -torch.linspace(0, 1, TOKENS, dtype=torch.float64, device=device)
    return ((u * values) @ v.mT).float()


def errors(device: str) -> dict[str, float]:
    """Largest relative error of `edges` against a float64 SVD of the same float32 matrices, by kappa."""
    largest = {}
    for kappa in (1.5, 3.0, 1e2, 1e4, 1e6):
        x = with_kappa(4, kappa, device)
        truth = svd(x.double())
        largest[f"{kappa:g}"] = ((edges(x).kappa - truth).abs() / truth).max().item()
    return largest


def batch(matrices: int, device: str) -> list[dict[str, Any]]:
    """Time per matrix, of our functions and of torch's."""
    x = torch.randn(matrices, TOKENS, INNER, generator=torch.Generator(device).manual_seed(0), device=device)
    few = x[: matrices // 16] if device == "cuda" else x  # torch loops over a CUDA batch, so fewer matrices suffice

    def calls(f: Callable[[Tensor], Any], of: Tensor) -> Callable[[], Callable[[], Any]]:
        return lambda: lambda: f(of)

    ours = race(
        f"kappa of {matrices} x {TOKENS} x {INNER}",
        [Contestant("edges", calls(edges, x)), Contestant("spectrum, raw and centred", calls(spectrum, x))],
        work=matrices,
        unit="matrices/s",
        steps=5 if device == "cuda" else 1,
    )
    peers = race(
        f"kappa of {len(few)} x {TOKENS} x {INNER}",
        [
            Contestant("edges", calls(edges, few)),
            Contestant("torch.linalg.svdvals float32", calls(svd, few)),
            Contestant("Gram + torch.linalg.eigvalsh float64", calls(gram_eigen, few)),
        ],
        work=len(few),
        unit="matrices/s",
        steps=1,
        rounds=5,
        warm=2,
    )
    fast = ours["contestants"]["edges"]["rate"]
    ours["microseconds_per_matrix"] = {name: 1e6 / row["rate"] for name, row in ours["contestants"].items()}
    ours["ratios_of_whole_batch"] = {name: fast / row["rate"] for name, row in peers["contestants"].items()}
    ours["relative_error"] = errors(device)
    print(ours["microseconds_per_matrix"], ours["ratios_of_whole_batch"], ours["relative_error"], flush=True)
    return [ours, peers]


def overhead(steps: int = 100, every: int = 50, samples: int = 8) -> list[dict[str, Any]]:
    """Seconds of a compiled ViT-B's training at batch 256, with and without a probe on 8 images every `every` steps."""
    x, y = images(256)
    model = half_stream(build(zoo.get("vit_b"), device="cuda", seed=0))
    step = train_step(model, x, y)
    held_out = torch.randn(samples, 3, 224, 224, device="cuda")
    for _ in range(5):
        step()
    probe(model, held_out)
    turns: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(3):
        for name, seconds in turns.items():
            synchronise()
            start = time.perf_counter()
            for i in range(steps):
                step()
                if name == "with" and i % every == 0:
                    probe(model, held_out)
            synchronise()
            seconds.append(time.perf_counter() - start)
    medians = {name: sorted(seconds)[1] for name, seconds in turns.items()}
    result = {
        "case": f"probe on {samples} images every {every} steps, vit_b batch 256",
        "steps": steps,
        "turns": turns,
        "overhead": medians["with"] / medians["without"] - 1,
    }
    print(result, flush=True)
    return [result]


def main() -> None:
    """Run what this machine can run, and write the record."""
    args = arguments(__doc__, "bench_kappa.json").parse_args()
    gpu = torch.cuda.is_available()
    if not gpu:
        torch.set_num_threads(1)
    results = batch(384, "cuda") if gpu else batch(32, "cpu")
    write(args.out, results)
    if gpu:
        write(args.out, results + overhead())


if __name__ == "__main__":
    main()
