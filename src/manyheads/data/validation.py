"""The validation split of a training set: samples that are kept out of training, so that one can choose by them.

Which samples these are is a function of their numbers in the stored training set. It depends on no seed, no model and
no other option of a task, so every run of an experiment keeps the same ones out."""

from __future__ import annotations

from manyheads.spec.errors import UserError

from .randomness import Indices, key, uniforms

SPLIT = key("validation")


def parted(samples: Indices, share: float, field: str) -> tuple[Indices, Indices]:
    """The numbers to train on and those to validate on, in their order.

    A number is hashed to one in [0, 1), and those below `share` are validation: a larger share keeps out the same
    samples and more. `field` is the name of the share in the message that refuses an empty split."""
    kept = uniforms(SPLIT, samples, 1)[:, 0] < share
    if not kept.any() or kept.all():
        none, other = ("validate on", "larger") if not kept.any() else ("train on", "smaller")
        raise UserError(
            f"{field} is {share:g}, which leaves none of {len(samples):,} training samples to {none}; write a {other} "
            "share, or take more samples"
        )
    return samples[~kept], samples[kept]
