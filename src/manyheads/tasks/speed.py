"""`Speed`: how long a model takes here, one example alone and many, on the CPU and on the GPU if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.models.build import build
from manyheads.models.example_step import example, training_step
from manyheads.spec.arch import Arch
from manyheads.spec.validate import between

from .measurement import Findings, Measurement


@dataclass(frozen=True)
class Speed(Measurement):
    """Milliseconds an example: `cpu_1` alone, `cpu_many` in a batch, `cpu_train` in a training step of that batch;
    `gpu_1` and so on on the GPU, in bfloat16. Both devices are measured, whichever the run is told to use.

    Eager, float32 and as many threads as PyTorch has on the CPU. A busy machine makes every number worse: measure one
    model at a time. `seconds` is the least time spent on each number, a median."""

    batch: int = 8
    gpu_batch: int = 64
    seconds: float = 2.0

    def __post_init__(self) -> None:
        between("Speed.batch", self.batch, 1, whole=True)
        between("Speed.gpu_batch", self.gpu_batch, 1, whole=True)
        between("Speed.seconds", self.seconds, 0)

    def measure(self, arch: Arch, seed: int, device: torch.device) -> Findings:
        """Both devices in turn."""
        score = self._on(arch, seed, torch.device("cpu"), self.batch)
        if torch.cuda.is_available():
            where = device if device.type == "cuda" else torch.device("cuda")
            score |= self._on(arch, seed, where, self.gpu_batch)
        return Findings(score, ("cpu_1", "down"))

    def _on(self, arch: Arch, seed: int, device: torch.device, batch: int) -> dict[str, float]:
        from torch.utils.benchmark import Timer  # where a toolkit is without a GPU, this import complains

        half = device.type == "cuda"
        model = build(arch, device="cpu", seed=seed).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        alone, many = example(arch, 1, device), example(arch, batch, device)

        def forward(inputs: Tensor) -> None:
            model.eval()
            with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
                model(inputs)

        def train(inputs: Tensor) -> None:
            model.train()
            training_step(arch, model, optimizer, inputs, half)

        def seconds(step: Callable[[Tensor], None], inputs: Tensor) -> float:
            step(inputs)
            timer = Timer("step(inputs)", globals={"step": step, "inputs": inputs}, num_threads=torch.get_num_threads())
            return float(timer.blocked_autorange(min_run_time=self.seconds).median) / len(inputs)

        timed = {"1": seconds(forward, alone), "many": seconds(forward, many), "train": seconds(train, many)}
        return {f"{'gpu' if half else 'cpu'}_{name}": 1e3 * value for name, value in timed.items()}
