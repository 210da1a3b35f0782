"""Each model type of transformers is read exactly or refused with its reason, from its own configuration class."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.arch.count import params
from manyheads.interop.read_hf import from_config
from manyheads.models.build import build
from manyheads.models.twins.hf_types import MAPS
from manyheads.models.twins.tensors import back, into
from manyheads.spec.arch import FAMILIES, Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Features, Lm, Token
from tests.parity.harness import randomise
from tests.parity.hf import in_double

from .hf_types import ROWS, Row

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")

RESULTS = Path(__file__).parents[2] / "build" / "model_types"
QUICK = ("gpt2", "llama", "bert", "vit")  # the others are slow, since transformers imports a file for each
SLOW = [pytest.mark.slow]
READ = {kind: row for kind, row in ROWS.items() if not row.refused}
REFUSED = {kind: row for kind, row in ROWS.items() if row.refused}


def sliced(kinds: Mapping[str, Row]) -> list[Any]:
    """All of them, most as slow tests."""
    cases = [(kind, name) for kind, row in kinds.items() for name in ("", *row.also)]
    return [pytest.param(*case, id="-".join(filter(None, case)), marks=SLOW * (case[0] not in QUICK)) for case in cases]


def configured(kind: str, name: str) -> Any:
    """The configuration of a row, or the further one of that name, by transformers' own class."""
    row = ROWS[kind]
    return transformers.AutoConfig.for_model(kind, **{**row.config, **(row.also[name] if name else {})})


def made(kind: str, config: Any) -> nn.Module:
    """transformers' model in float64, every tensor random."""
    with in_double():
        auto = getattr(transformers, ROWS[kind].auto)
        make = auto.from_config if ROWS[kind].auto.startswith("Auto") else auto._from_config
        return randomise(make(config, attn_implementation="eager")).eval()


def as_saved(config: Any, model: nn.Module) -> dict[str, Any]:
    """What the config.json of a saved model holds."""
    return json.loads(json.dumps(config.to_dict())) | {"architectures": [type(model).__name__]}


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize(("kind", "name"), sliced(READ))
def test_a_type_that_is_read_is_read_exactly(kind: str, name: str) -> None:
    """Parameters to the integer, results of weights that were carried here, and the same weights carried back."""
    config = configured(kind, name)
    twin = made(kind, config)
    arch = from_config(as_saved(config, twin))
    count = sum(p.numel() for p in twin.parameters())
    assert params(arch).total == count
    entries, tied = MAPS[kind].entries(arch), MAPS[kind].tied(arch)
    state = {at: tensor for at, tensor in twin.state_dict().items() if at not in tied}
    ours = build(arch).double().eval()
    ours.load_state_dict(into(entries, state), strict=True)
    for given, mask in batches(arch):
        kept: dict[str, Tensor] = {} if mask is None else {"mask": mask}
        said = {} if mask is None else {"attention_mask": mask.long()}
        if mask is not None and isinstance(arch.head, Lm):
            kept["places"] = said["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0)
        with torch.no_grad(), in_double():
            out, mine = twin(given, **said), ours(given, **kept)
        theirs = out.last_hidden_state if isinstance(arch.head, Features) else out.logits
        real = slice(None) if mask is None else mask
        torch.testing.assert_close(mine[real], theirs[real], rtol=1e-8, atol=1e-8)
    again = back(entries, ours.state_dict())
    assert again.keys() == state.keys()
    for at, tensor in again.items():
        torch.testing.assert_close(tensor, state[at], rtol=0, atol=0)
    keep(kind, name, count, arch.family, "")


def batches(arch: Arch) -> list[tuple[Tensor, Tensor | None]]:
    """Inputs with a mask or without: a text longer than any window, and for decoders padding at either end."""
    dice = torch.Generator().manual_seed(2)
    if not isinstance(arch.embed, Token):
        size = arch.embed.image  # type: ignore[union-attr]
        return [(torch.randn(2, 3, size, size, generator=dice, dtype=torch.float64), None)]
    ids = torch.randint(2, arch.embed.vocab, (2, 20), generator=dice)
    right = torch.arange(20) < torch.tensor([[20], [15]])
    left = torch.arange(20) >= torch.tensor([[0], [6]])
    return [(ids, None), (ids, right)] + [(ids, left)] * isinstance(arch.head, Lm)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name"), sliced(REFUSED))
def test_a_type_that_is_not_read_is_refused_with_its_reason(kind: str, name: str) -> None:
    config = configured(kind, name)
    with pytest.raises(UserError, match=ROWS[kind].refused) as error:
        from_config(json.loads(json.dumps(config.to_dict())))
    assert "did you mean" not in str(error.value)
    keep(kind, name, 0, "", str(error.value))


def test_a_type_that_nobody_knows_is_told_what_is_read() -> None:
    with pytest.raises(UserError, match="model_type 'lama' is not one manyheads reads; those are arcee, bert,"):
        from_config({"model_type": "lama"})


def keep(kind: str, name: str, count: int, family: str, refusal: str) -> None:
    """A line for docs/model_types.md (written by docs/make_model_types.py)."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    label = FAMILIES[family].label if family else ""
    line = {"type": kind, "name": name, "parameters": count, "family": label, "refusal": refusal}
    line["version"] = transformers.__version__
    target = RESULTS / f"{kind}{name and '-'}{name.replace(' ', '_')}.json"
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(line))
    partial.replace(target)
