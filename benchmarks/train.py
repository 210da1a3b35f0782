"""`python -m benchmarks.train`: our training loop beside the obvious one, for one run and for several at once.

The obvious loop has timm's model, a torchvision-style dataset behind a DataLoader with workers, autocast and
torch.compile. Ours is `train(run)` as a user calls it, including the run folder. The data has the shape and the files
of CIFAR-10 with random pixels: 50,000 images of 3 x 32 x 32. The model is a ViT of width 192 with 12 layers, 3 heads of
64 and 65 tokens, trained at batch 512."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from manyheads.arch import families, zoo
from manyheads.runs import Run, RunSpec
from manyheads.spec.arch import Arch
from manyheads.spec.images import Augment
from manyheads.spec.recipe import Basis, Recipe
from manyheads.tasks import fit, to_dict
from manyheads.tasks.images import Images
from manyheads.train.loop import train

from .measure import arguments, machine, write_record

BATCH = 512
GPU = torch.cuda.is_available()


def small(depth: int = 12) -> Arch:
    """The ViT that is compared."""
    return families.vit(192, depth, 3, 64, 768, image=32, patch=4, classes=10)


def write_cifar(root: Path) -> None:
    """Write CIFAR-10's official binary files with random pixels."""
    draw, folder = np.random.default_rng(0), root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        rows = draw.integers(0, 256, (10_000, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(10_000) % 10
        rows.tofile(folder / name)


class TorchvisionStyle(torch.utils.data.Dataset[Any]):
    """Images as torchvision's CIFAR10 class returns them: one at a time, from a PIL image, through its transforms."""

    def __init__(self) -> None:
        from torchvision import transforms as T

        self.pixels = np.random.default_rng(0).integers(0, 256, (50_000, 32, 32, 3), dtype=np.uint8)
        norm = T.Normalize((0.49, 0.48, 0.45), (0.25, 0.24, 0.26))
        self.transform = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), norm])

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.pixels[i])), i % 10


def obvious(steps: int, workers: int, depth: int = 12) -> dict[str, Any]:
    """The training loop that one writes first; images per second after its start."""
    import timm

    device = "cuda" if GPU else "cpu"
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=4, num_classes=10, depth=depth).to(device)
    loader = torch.utils.data.DataLoader(
        TorchvisionStyle(),
        BATCH,
        shuffle=True,
        num_workers=workers,
        pin_memory=GPU,
        drop_last=True,
        persistent_workers=workers > 0,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=GPU)
    fast, step, turns = torch.compile(model) if GPU else model, 0, []
    start = time.perf_counter()
    while step < steps:
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=GPU):
                loss = F.cross_entropy(fast(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                loss.item()
                turns.append(time.perf_counter() - start)
                start = time.perf_counter()
            if step >= steps:
                break
    rates = [20 * BATCH / turn for turn in turns[2:]] or [20 * BATCH / turns[-1]]
    return {"rate": statistics.median(rates), "rates": rates, "workers": workers}


def run_spec(arch: Arch, amount: float, kind: str, batch: int, size: int | None, seed: int) -> RunSpec:
    """The specification of one of our runs."""
    task = Images("cifar10", size=size, limit=2000 if size else None, augment=Augment(crop=4, flip=True))
    recipe = Recipe(batch=batch, basis=Basis(kind, amount), evaluate_every=0, log_every=20, checkpoint_every=0)  # type: ignore[arg-type]
    return RunSpec(arch, to_dict(task), recipe.to_dict(), seed)


def ours(root: Path, folder: Path, spec: RunSpec) -> dict[str, Any]:
    """`train(run)`; images per second from the run's own timings, without its first third."""
    run = Run.create(folder, spec)
    train(run, root=root, quiet=True)
    rates = [line["rate"] for line in run.timings.read()]
    rest = rates[len(rates) // 3 :] or rates
    return {"rate": statistics.median(rest), "rates": rest}


def together(root: Path, folder: Path, processes: int, seconds: float, depth: int) -> dict[str, Any]:
    """Several runs at once, each in its own process: the sum of their rates in the middle of their time."""
    command = [sys.executable, "-m", "benchmarks.train", "--child", root, "--seconds", seconds, "--depth", depth]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen([str(word) for word in (*command, "--folder", folder / str(i), "--seed", i)], env=env)
        for i in range(processes)
    ]
    failed = sum(child.wait() != 0 for child in children)
    rates = []
    for i in range(processes):
        lines = Run.open(folder / str(i)).timings.read()
        middle = [line["rate"] for line in lines if 0.35 * seconds < line["seconds"] < 0.9 * seconds]
        rates.append(statistics.mean(middle) if middle else 0.0)
    return {"processes": processes, "failed": failed, "rate": sum(rates), "rates": rates}


def main() -> None:
    """Run the chosen parts and write the record."""
    parser = arguments(__doc__, "bench_train.json")
    parser.add_argument("--only", default="obvious,alone,together,vit_b")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--processes", default="4,10")
    parser.add_argument("--workers", type=int, default=max(0, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--child", type=Path, help="the data root, in a process that trains one of several runs")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.child:
        ours(args.child, args.folder, run_spec(small(args.depth), args.seconds, "seconds", BATCH, None, args.seed))
        return
    record: dict[str, Any] = {
        "machine": machine(),
        "batch": BATCH,
        "mps": bool(os.environ.get("CUDA_MPS_PIPE_DIRECTORY")),
    }

    def keep(name: str, value: Any) -> None:
        record[name] = value
        write_record(args.out, record)
        print(name, {k: v for k, v in value.items() if k != "rates"}, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_cifar(folder)
        for part in args.only.split(","):
            if part == "obvious":
                keep(part, obvious(args.steps, args.workers, args.depth))
            elif part == "alone":
                keep(
                    part,
                    ours(folder, folder / "alone", run_spec(small(args.depth), args.steps, "steps", BATCH, None, 0)),
                )
            elif part == "together":
                for number in map(int, args.processes.split(",")):
                    keep(
                        f"together_{number}", together(folder, folder / f"of{number}", number, args.seconds, args.depth)
                    )
            elif part == "vit_b":
                keep(part, ours(folder, folder / "vit_b", run_spec(fitted(), 100, "steps", 256, 224, 0)))


def fitted() -> Arch:
    """ViT-B at 224 px with CIFAR-10's classes."""
    return fit(Images("cifar10", size=224), zoo.get("vit_b"))


if __name__ == "__main__":
    main()
