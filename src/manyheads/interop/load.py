"""A module by its name, and batches that it can be called with: noise, a user's own images, a user's own text.

Names are those of `resolve`: a zoo name, a saved record or model, `timm:NAME`, `hf:FOLDER`, `run:FOLDER`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.spec.arch import Arch
from manyheads.spec.datasets import IMAGENET_MEAN, IMAGENET_STD
from manyheads.spec.errors import UserError, first_line, nearest, optional
from manyheads.spec.parts import Pair, Points, Token
from manyheads.spec.serialise import read_json

from .folder_tokenizer import has_tokenizer
from .foreign_source import gguf_file, silence
from .no_pickle import weights_only
from .resolve import resolve

SAFE: dict[str, Any] = {"use_safetensors": True}
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif")


@dataclass(frozen=True)
class ImageInput:
    """The model takes images of channels x size x size, normalised by `mean` and `std`. `keyword` is the argument's
    name; where it is empty, the batch is the first argument."""

    size: int
    channels: int = 3
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    keyword: str = ""

    def noise(self, batch: int, seed: int = 0) -> Any:
        """Images of normally distributed pixels."""
        return _by_keyword(self.keyword, _normal((batch, self.channels, self.size, self.size), seed))


@dataclass(frozen=True)
class TokenInput:
    """The model takes sequences of `tokens` ids below `vocab`, or pairs of them. `keyword` as for images."""

    vocab: int
    tokens: int
    pair: bool = False
    keyword: str = ""

    def noise(self, batch: int, seed: int = 0) -> Any:
        """Uniformly drawn ids."""
        shape = (batch, 2, self.tokens) if self.pair else (batch, self.tokens)
        ids = torch.randint(self.vocab, shape, generator=torch.Generator().manual_seed(seed))
        return _by_keyword(self.keyword, ids)


@dataclass(frozen=True)
class PointInput:
    """The model takes sets of `tokens` points with `dim` coordinates each."""

    tokens: int
    dim: int

    def noise(self, batch: int, seed: int = 0) -> Any:
        """Normally distributed points."""
        return _normal((batch, self.tokens, self.dim), seed)


Input = ImageInput | TokenInput | PointInput


def _by_keyword(keyword: str, x: Tensor) -> Any:
    return {keyword: x} if keyword else x


def _normal(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def image_batch(folder: Path, kind: Input, batch: int) -> Any:
    """The first `batch` images of a folder in order of their names, resized to the shorter side, cropped to the centre
    and normalised."""
    if not isinstance(kind, ImageInput):
        raise UserError("this model does not take images; leave --images out")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)[:batch]
    if not files:
        raise UserError(f"{folder} holds no image; write a folder with {', '.join(SUFFIXES)} files")
    pillow = optional("PIL.Image", "manyheads[vision]")
    v2 = optional("torchvision.transforms.v2", "manyheads[vision]")
    steps = [
        v2.ToImage(),
        v2.Resize(kind.size),
        v2.CenterCrop(kind.size),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(kind.mean[: kind.channels], kind.std[: kind.channels]),
    ]
    mode = "L" if kind.channels == 1 else "RGB"
    try:
        pixels = [v2.Compose(steps)(pillow.open(file).convert(mode)) for file in files]
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise UserError(f"an image of {folder} cannot be read: {error}") from None
    return _by_keyword(kind.keyword, torch.stack(pixels))


def text_batch(file: Path, name: str, kind: Input, batch: int, *, trust_remote_code: bool = False) -> Any:
    """The beginning of a text file as `batch` consecutive sequences, tokenized by the tokenizer in the model's own
    folder. `trust_remote_code` as in `load`."""
    prefix, _, rest = name.partition(":")
    folder = rest if prefix == "hf" else name
    if not isinstance(kind, TokenInput) or (prefix != "hf" and not has_tokenizer(Path(folder))):
        raise UserError(
            f"--text needs the model's tokenizer, and {name} has none; write hf:FOLDER, where FOLDER holds a tokenizer"
        )
    transformers = optional("transformers", "manyheads[hf]")
    place, own = _place(folder)
    try:
        text = file.read_text(encoding="utf-8")
        with weights_only(), silence():
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code, **own)
    except Exception as error:  # transformers, on a tokenizer's files that nobody has checked before
        raise UserError(f"--text {file}: {first_line(error)}{_own_code(error)}") from None
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"][0]
    length = min(kind.tokens, len(ids))
    if length < 2:
        raise UserError(f"{file} has {len(ids)} tokens; a sequence needs at least 2")
    count = min(batch, len(ids) // length)
    return _by_keyword(kind.keyword, ids[: count * length].view(count, length))


@dataclass(frozen=True)
class Loaded:
    """A module, what it takes, and whether its weights are initial ones rather than trained."""

    module: nn.Module
    input: Input
    initial: bool


def load(
    name: str, *, random: bool = False, seed: int = 0, tokens: int | None = None, trust_remote_code: bool = False
) -> Loaded:
    """The module that `name` stands for. Weights are never unpickled.

    `random` draws initial weights from `seed` instead of loading trained ones. A zoo name and a record have no trained
    weights. `tokens` is the length of a language model's sequences; without it, the longest that the model takes, and
    at most 512 for a transformers model. `trust_remote_code` executes the Python files that a transformers model brings,
    where it has some; without it they are never executed."""
    prefix, _, rest = name.partition(":")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if prefix == "timm" and rest:
            return Loaded(*_timm(rest, random), random)
        if prefix == "hf" and rest and not (Path(rest) / "arch.json").is_file():
            return Loaded(*_hf(rest, random, tokens, trust_remote_code), random)
    from manyheads.models import store
    from manyheads.models.build import build

    folder = Path(rest if prefix == "hf" and rest else name)
    if prefix == "run" and rest:
        folder = Path(rest) / "model"
    if (folder / store.WEIGHTS).is_file() and not random:
        model = store.load(folder)
        assert isinstance(model.arch, Arch)
        return Loaded(model, input_of(model.arch, tokens), False)
    arch = resolve(name)
    return Loaded(build(arch, seed=seed), input_of(arch, tokens), True)


def input_of(arch: Arch, tokens: int | None) -> Input:
    """What a model of ours takes."""
    embed, length = arch.embed, tokens or arch.stages[0].tokens
    match embed:
        case Token():
            return TokenInput(embed.vocab, length, pair=isinstance(arch.head, Pair))
        case Points():
            return PointInput(length, embed.dim)
        case _:
            return ImageInput(embed.image, embed.channels)


def _timm(name: str, random: bool) -> tuple[nn.Module, Input]:
    timm = optional("timm", "manyheads[vision]")
    if not timm.is_model(name):
        hint = nearest(name.split(".")[0], timm.list_models())
        raise UserError(f"timm {timm.__version__} has no model {name!r}{hint}")
    try:
        with weights_only():
            model = timm.create_model(name, pretrained=not random)
    except Exception as error:  # timm, on settings and files that nobody has checked before
        reason = first_line(error)
        raise UserError(
            f"timm cannot load the weights of {name}: {reason}; write --random for initial weights"
        ) from None
    settings = model.pretrained_cfg
    channels, size, _ = settings.get("input_size", (3, 224, 224))
    return model, ImageInput(
        size, channels, mean=settings.get("mean", IMAGENET_MEAN), std=settings.get("std", IMAGENET_STD)
    )


def _hf(folder: str, random: bool, tokens: int | None, trusted: bool) -> tuple[nn.Module, Input]:
    transformers = optional("transformers", "manyheads[hf]")
    local = Path(folder).exists()
    place, own = _place(folder)
    if _settings(Path(folder) / "config.json").get("model_type") == "manyheads":
        from . import hf  # noqa: F401 (registers manyheads with the Auto classes)
    if local and not own and not (Path(folder) / "config.json").is_file():
        raise UserError(
            f"{folder} holds no config.json; after hf: write a folder that save_pretrained wrote, or the name of a "
            "model on the hub"
        )
    try:
        with weights_only(), silence():
            config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=trusted, **own)
            if not trusted:
                config._attn_implementation = None  # transformers' own choice: a folder's may be a program of the hub
            model = (
                transformers.AutoModel.from_config(config, trust_remote_code=trusted)
                if random
                else transformers.AutoModel.from_pretrained(
                    place, config=config, trust_remote_code=trusted, **(own or SAFE)
                )
            )
    except Exception as error:  # transformers, on a configuration and files that nobody has checked before
        hint = _own_code(error) or ("" if random else "; --random needs only the configuration")
        raise UserError(f"transformers cannot load {folder!r}: {first_line(error)}{hint}") from None
    # A configuration of transformers has no type that says "images": the presence of image_size does.
    if size := getattr(config, "image_size", None):
        settings = _settings(Path(folder) / "preprocessor_config.json")
        return model, ImageInput(
            size if isinstance(size, int) else size[0],
            getattr(config, "num_channels", 3),
            mean=tuple(settings.get("image_mean", IMAGENET_MEAN)),
            std=tuple(settings.get("image_std", IMAGENET_STD)),
            keyword="pixel_values",
        )
    longest: int = getattr(config, "max_position_embeddings", 512)
    return model, TokenInput(config.vocab_size, tokens or min(longest, 512), keyword="input_ids")


def _place(name: str) -> tuple[str | Path, dict[str, Any]]:
    """Where transformers finds a model, and the argument that names its GGUF file, if it is one."""
    file = gguf_file(Path(name))
    return (name, {}) if file is None else (file.parent, {"gguf_file": file.name})


def _own_code(error: Exception) -> str:
    """What to write where transformers refuses to run Python files that a model brings."""
    told = "; read it, and write --trust-remote-code to have it executed"
    return told if "trust_remote_code" in str(error) else ""


def _settings(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise UserError(f"{file} holds no JSON object; write one with named fields")
    return found
