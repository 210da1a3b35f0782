"""Modules from names, and what they take: a zoo name, a record, a saved model's folder, `timm:`, `hf:`, `run:`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.parts import Pair, Points, Token

from .extras import needed
from .names import resolve

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's


@dataclass(frozen=True)
class Input:
    """What a model takes: images of `channels` x `size` x `size`, normalised by `mean` and `std`; or sequences of
    `tokens` ids below `vocab`; or points. Under the keyword `name`, or (empty) as the first argument."""

    size: int = 0
    channels: int = 3
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    vocab: int = 0
    tokens: int = 0
    name: str = ""
    pair: bool = False
    dim: int = 0

    def wrap(self, x: Tensor) -> Any:
        """A batch that the model can be called with."""
        return {self.name: x} if self.name else x

    def noise(self, batch: int, seed: int = 0) -> Any:
        """Normal images or points, or uniformly drawn ids."""
        generator = torch.Generator().manual_seed(seed)
        if self.vocab:
            shape = (batch, 2, self.tokens) if self.pair else (batch, self.tokens)
            return self.wrap(torch.randint(self.vocab, shape, generator=generator))
        block = [batch, self.tokens, self.dim] if self.dim else [batch, self.channels, self.size, self.size]
        return self.wrap(torch.randn(block, generator=generator))


@dataclass(frozen=True)
class Loaded:
    """A module, what it takes, and whether its weights are initial ones."""

    module: nn.Module
    taken: Input
    initial: bool


def load(name: str, *, random: bool = False, seed: int = 0, tokens: int | None = None) -> Loaded:
    """The module that `name` stands for.

    `random` draws initial weights from `seed` instead of loading the model's own; a zoo name or a record has no others.
    `tokens` is the length of a language model's sequences: its own, or 512 where it takes more."""
    prefix, _, rest = name.partition(":")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if prefix == "timm" and rest:
            return Loaded(*_timm(rest, random), random)
        if prefix == "hf" and rest and not (Path(rest) / "arch.json").is_file():
            return Loaded(*_hf(rest, random, tokens), random)
    from manyheads.models import store
    from manyheads.models.build import build

    folder = Path(rest if prefix == "hf" and rest else name)
    if prefix == "run" and rest:
        folder = Path(rest) / "model"
    if (folder / store.WEIGHTS).is_file() and not random:
        model = store.load(folder)
        assert isinstance(model.arch, Arch)
        return Loaded(model, _taken(model.arch, tokens), False)
    arch = resolve(name)
    return Loaded(build(arch, seed=seed), _taken(arch, tokens), True)


def _taken(arch: Arch, tokens: int | None) -> Input:
    embed, length = arch.embed, tokens or arch.stages[0].tokens
    if isinstance(embed, Token):
        return Input(vocab=embed.vocab, tokens=length, pair=isinstance(arch.head, Pair))
    if isinstance(embed, Points):
        return Input(dim=embed.dim, tokens=length)
    return Input(size=embed.image, channels=embed.channels)


def _timm(name: str, random: bool) -> tuple[nn.Module, Input]:
    timm = needed("timm", "vision")
    if not timm.is_model(name):
        known = timm.list_models()
        raise UserError(f"timm {timm.__version__} has no model {name!r}{nearest(name.split('.')[0], known)}")
    try:
        model = timm.create_model(name, pretrained=not random)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"timm cannot load the weights of {name}: {reason}; --random takes its initial ones") from None
    settings = model.pretrained_cfg
    channels, size, _ = settings.get("input_size", (3, 224, 224))
    return model, Input(size=size, channels=channels, mean=settings.get("mean", MEAN), std=settings.get("std", STD))


def _hf(folder: str, random: bool, tokens: int | None) -> tuple[nn.Module, Input]:
    transformers = needed("transformers", "hf")
    local = Path(folder).exists()
    if _settings(Path(folder) / "config.json").get("model_type") == "manyheads":
        from . import hf  # noqa: F401 (makes the Auto classes know it)
    if local and not (Path(folder) / "config.json").is_file():
        raise UserError(
            f"{folder} holds no config.json; write hf: and a folder that save_pretrained wrote, or a hub id"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        model = (
            transformers.AutoModel.from_config(config)
            if random
            else transformers.AutoModel.from_pretrained(folder, use_safetensors=True)
        )
    except (OSError, ValueError) as error:
        hint = "" if random else "; --random needs the configuration alone"
        raise UserError(f"transformers cannot load {folder!r}: {str(error).splitlines()[0]}{hint}") from None
    if size := getattr(config, "image_size", None):
        size = size if isinstance(size, int) else size[0]
        settings = _settings(Path(folder) / "preprocessor_config.json")
        mean, std = tuple(settings.get("image_mean", MEAN)), tuple(settings.get("image_std", STD))
        return model, Input(
            size=size, channels=getattr(config, "num_channels", 3), mean=mean, std=std, name="pixel_values"
        )
    longest: int = getattr(config, "max_position_embeddings", 512)
    return model, Input(vocab=config.vocab_size, tokens=tokens or min(longest, 512), name="input_ids")


def _settings(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())) if file.is_file() else {}
