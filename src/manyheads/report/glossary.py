"""What the words on the page mean: heads of columns, metrics, scales, and the terms of the project."""

from __future__ import annotations

# unit of a metric, and what it is, where its name does not say it
# fmt: off
METRICS: dict[str, tuple[str, str]] = {
    "cpu_1": ("ms", "milliseconds on the CPU for one example alone"),
    "cpu_many": ("ms", "milliseconds per example on the CPU, in a batch"),
    "cpu_train": ("ms", "milliseconds per example on the CPU, in a training step of that batch"),
    "gpu_1": ("ms", "milliseconds on the GPU for one example alone"),
    "gpu_many": ("ms", "milliseconds per example on the GPU, in a batch"),
    "gpu_train": ("ms", "milliseconds per example on the GPU, in a training step of that batch"),
    "memory": ("GB", "gigabytes that a training step needs, as a memory tracker measured them; at scale smoke, by formula"),
    "allocated": ("GB", "gigabytes at the peak of a training step on the GPU"),
    "counted": ("GB", "gigabytes that a training step needs, by formula"),
    "skill": ("", "1 means no error, 0 means no better than the best linear guess"),
    "seen": ("", "loss on the first training samples"),
    "deficient": ("", "share of matrices without full rank"),
    "standard_error": ("", "standard error of the score, from the number of held-out samples"),
}

TERMS = {
    "arm": "one model in a comparison: the original, its redesign, or a control",
    "inner": "heads x head_dim: the columns of the matrix of concatenated heads",
    "kappa": "condition number (largest over smallest singular value) of the tokens x inner matrix of concatenated heads "
    "before the output projection, at the end of training; geometric mean over samples, layers and seeds",
    "Gaussian": "kappa that independent normal entries of the same shape would have",
    "basis": "what is held equal between the arms of a comparison: steps, tokens or images, FLOPs, or seconds",
}

# heads of the table of arms
ARMS = TERMS | {
    "layers": "depth, by stage",
    "heads": "heads x head_dim",
    "FLOPs": "floating-point operations of one forward pass over one sample",
    "seeds": "number of finished runs, one per seed",
    "seconds": "training time, mean over seeds",
    "paper": "what the paper printed for this arm",
    "non-embedding": "parameters of the layers alone, without embedding and head",
    **{metric: meaning for metric, (_, meaning) in METRICS.items()},
    "binomial": "standard error of one run's score that the number of held-out samples alone leaves; the result or the "
    "task states that number. More seeds do not reduce it, since all seeds are scored on the same samples",
}

# heads of the tables of claims and of comparisons
COMPARISONS = {
    "verdict": "the outcome by the rule below the claims, with its scale; x2 means that two comparisons have it",
    "effect": "difference between the means over seeds, with its 95 % interval; for kappa and for ratios a factor",
    "visible": "the smallest true difference that these seeds, with this scatter, show in four of five experiments",
    "paper": "the same difference as the paper printed it; in brackets, what it printed about the claim as a whole",
    "compared": "an arm, the arm it is compared against, and the metric",
    "seeds": "number of seeds with finished runs",
    "held equal": "the basis: what both arms have the same amount of, read from their runs",
}
# fmt: on

SCALES = {
    "smoke": "shows that everything works",
    "laptop": "reduced sizes, meant for two CPU cores; a verdict is about these sizes",
    "small": "reduced sizes, meant for one GPU; a verdict is about these sizes",
    "paper": "the paper's own sizes",
    "own": "as whoever ran it stated it",
}
