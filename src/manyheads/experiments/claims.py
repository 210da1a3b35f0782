"""The claims of the two papers, and those nobody tested, by the name under which an experiment decides them."""

from __future__ import annotations

CLAIMS: dict[str, str] = {
    "L1": "Gaussian heads with inner far above tokens have kappa near 1",
    "L2": "at a fixed head_dim, kappa tends to 1 as heads are added",
    "L3": "the concatenated heads have full rank with probability 1",
    "L4": "in a trained ViT-B kappa falls as heads grow",
    "L5": "accuracy grows with heads at 12 layers",
    "L6": "8 layers with more than 12 heads beat the 12-layer original",
    "L7": "MLP width matters less than heads, because MLPs are already well conditioned",
    "L8": "below 8 layers, heads can recover the accuracy",
    "L9": "a lean base model loses nothing at 29-54 % fewer parameters",
    "L10": "the same holds for large models",
    "L11": "training memory falls with it",
    "L12": "Crammed BERT with 10 layers of 24 heads matches 16 of 12 on GLUE",
    "L13": "GPT-2 with 4 layers of 16 heads beats 12 of 12 on TinyStories",
    "L14": "Nyströmformer with 1 layer of 4 heads beats 2 of 2 on five long-range tasks",
    "L15": "a larger head_dim at fixed heads gives the same kappa but trains more slowly",
    "A1": "one full-rank head represents the nearest-neighbour target for any length",
    "A2": "a layer of rank-r heads needs exponentially many of them",
    "A3": "at fixed width, more heads hurt",
    "A4": "at fixed rank, more heads help",
    "A5": "depth rescues low rank for short sequences",
    "A6": "for long sequences it does not",
    "A7": "a sum of biased nearest-neighbour functions needs exponentially many low-rank heads",
    "A8": "two layers of rank-1 heads with positions approximate it by majority vote",
    "M1": "the gain of a lean design is its heads and not its lost depth",
    "M2": "fixed and split differ at equal depth",
    "M3": "kappa predicts loss across designs of one task",
    "M4": "a lean design is faster at equal quality",
}
