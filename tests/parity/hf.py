"""transformers' models as twins: their tied names, their precision, their padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor, nn

State = dict[str, Tensor]


def untied(tied: Mapping[str, str]) -> dict[str, Callable]:
    """How `agree` reads and writes a twin whose state names some tensors twice."""

    def state_of(module: nn.Module) -> State:
        return {name: tensor for name, tensor in module.state_dict().items() if name not in tied}

    def load_into(module: nn.Module, state: State) -> None:
        module.load_state_dict(state | {name: state[source] for name, source in tied.items()}, strict=True)

    return {"state_of": state_of, "load_into": load_into}


@contextmanager
def in_double() -> Iterator[None]:
    """transformers computes norms and rotary tables in float32 whatever the model's precision. In here its own
    formulas, untouched, find float64 under that name, and make in float64 what they make without naming a precision."""
    usual = torch.get_default_dtype()
    with (
        mock.patch.multiple(torch, float=torch.float64, float32=torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)


def keep_frequencies(rotary: nn.Module) -> None:
    """Rotary frequencies follow from the configuration: no longer a buffer, they are not randomised as if loaded."""
    for name in ("inv_freq", "original_inv_freq"):
        values = getattr(rotary, name).clone()  # no longer a Buffer object, which would register again
        assert values.dtype == torch.float64, "not computed in double"
        delattr(rotary, name)
        setattr(rotary, name, values)


def tokens(vocab: int, batch: int, length: int, pad: str = "") -> tuple[Tensor, Tensor]:
    """Token ids from 1 up, and which are real: with `pad`, each sequence is one shorter than the one before, filled
    with 0 on its `left` or `right`."""
    ids = torch.randint(1, vocab, (batch, length), generator=torch.Generator().manual_seed(5))
    short = torch.arange(batch)[:, None] * bool(pad)
    places = torch.arange(length)
    real = places >= short if pad == "left" else places < length - short
    return ids * real, real
