"""Building blocks that take heads and head_dim apart. Each keeps the part of the record it was built from (`spec`)."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Part(nn.Module):
    """A building block. `group` says where its own parameters are counted: embedding, attention, mlp, norm, local or
    head. Parameters of a module without a group count to the nearest module around it that has one."""

    group: ClassVar[str]
