"""The numbers past which a redesign is warned of: by the planner, over arrays of designs, and by the design explorer of
a report's page, in JavaScript. Both read them here, so that neither types them again."""

from __future__ import annotations

NEAR_PEAK = (0.7, 1.4)  # inner / tokens between which Gaussian kappa is above about 11
UNCHANGED = 0.02  # a smaller change of log kappa is none
# head_dim is the rank that one head has to match tokens with
VERY_LOW_RANK, LOW_RANK = 16, 32  # below the first: a serious warning; below the second: a caution
USUAL_RANK = 64  # head_dim of most published models
KERNELS = (32, 64, 96, 128, 192, 256)  # head_dims that FlashAttention-2 is compiled for
# the farthest that the first paper's redesigns went: ViT-L and GPT-2 keep a third of the layers, XCiT-M and LRA double
# the heads, ViT-B halves the MLP
TRIED_DEPTH, TRIED_HEADS, TRIED_MLP = 1 / 3, 2.0, 0.5
