"""Trained weights by a name, `hf:FOLDER`, `timm:NAME` or `timm:FOLDER`: the files, their sha256, and the module of the
library that wrote them. Nothing is unpickled, and no Python file of a folder is executed."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from manyheads.data.text.documents import digest
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, first_line, optional
from manyheads.spec.parts import Features, Lm, Masked, Token
from manyheads.spec.serialise import read_json

from .no_pickle import weights_only

WEIGHTS, INDEX, PICKLES = "model.safetensors", "model.safetensors.index.json", ("*.bin", "*.pt", "*.pth", "*.ckpt")
SETTINGS = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")  # what is read of a repository on the hub
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class WeightFiles:
    """The files that hold trained weights. `gguf` says that there is one file of this format, whose numbers are stored
    in `types`; `dtype` is the type that holds all numbers of the files exactly."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    dtype: torch.dtype
    types: tuple[str, ...]
    gguf: str | None = None

    @property
    def sha256(self) -> str:
        """The sha256 of the one file; of several, that of the text which `sha256sum FILE ...` prints about them."""
        digests = [digest(file) for file in self.files]
        if len(digests) == 1:
            return digests[0]
        lines = (f"{value}  {file.name}\n" for value, file in zip(digests, self.files, strict=True))
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass
class ForeignModule:
    """A module of timm or transformers with trained weights. `missing` are tensors of it that the files do not hold,
    and which therefore hold nothing of use; `unused` are tensors of the files that it has no place for."""

    module: nn.Module
    library: str
    missing: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()


def hf_files(name: str) -> WeightFiles:
    """The weights of `hf:FOLDER`: one safetensors file, or several with their index, or one GGUF file. FOLDER may be
    the name of a repository on the hub that is in the cache or can be fetched, and a GGUF file may be named itself."""
    path = Path(name)
    if (file := gguf_file(path)) is not None:
        return _described_gguf(name, file)
    folder = path if path.exists() else _from_hub(name)
    if not folder.is_dir():
        raise UserError(f"hf:{name} is a file; write the folder that holds config.json and model.safetensors")
    if (folder / INDEX).is_file():
        return described(name, folder, _shards(folder))
    if (folder / WEIGHTS).is_file():
        return described(name, folder, (folder / WEIGHTS,))
    raise UserError(f"hf:{name} holds no weights: neither {WEIGHTS} nor {INDEX} nor a .gguf file{pickled(folder)}")


def gguf_file(path: Path) -> Path | None:
    """The GGUF file that a name stands for: itself, or the only one in a folder without other weights."""
    if path.suffix == ".gguf" and path.is_file():
        return path
    if not path.is_dir() or any((path / name).is_file() for name in (WEIGHTS, INDEX)):
        return None
    found = sorted(path.glob("*.gguf"))
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise UserError(f"hf:{path} holds {len(found)} GGUF files, {names}; write the one: hf:{found[0]}")
    return found[0] if found else None


def pickled(folder: Path) -> str:
    """What to do where the weights are pickled."""
    found = [file.name for pattern in PICKLES for file in sorted(folder.glob(pattern))]
    if not found:
        return ""
    return (
        f". {found[0]} is a pickle: opening it can run any program, so it is not opened here. Take the model's "
        "safetensors from its publisher, or, if you trust the file, let transformers write them: "
        "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)"
    )


def _from_hub(name: str) -> Path:
    hub = optional("huggingface_hub", "manyheads[hf]")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=SETTINGS))
    except Exception as error:  # the hub's library has many kinds of errors
        why = first_line(error)
        raise UserError(f"hf:{name} is not a folder here, and it cannot be fetched: {why}") from None


def _shards(folder: Path) -> tuple[Path, ...]:
    index = read_json(folder / INDEX)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise UserError(f"{folder / INDEX} has no weight_map of tensor names and files; fetch it again")
    files = tuple(folder / file for file in sorted(set(places.values())))
    outside = [file for file in files if file.parent != folder]
    absent = [file.name for file in files if not file.is_file()]
    if absent or outside:
        what = absent[0] if absent else outside[0]
        raise UserError(f"{folder / INDEX} names {what}, which is not in the folder; fetch the folder again, whole")
    return files


def described(name: str, folder: Path, files: tuple[Path, ...]) -> WeightFiles:
    """The files, and the types of number in them."""
    kinds: Counter[str] = Counter()
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                kinds.update(str(opened.get_slice(tensor).get_dtype()) for tensor in opened.keys())  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise UserError(f"{file} is damaged or no safetensors file: {error}; fetch it again") from None
    floats = [FLOATS[kind] for kind in kinds if kind in FLOATS]
    if not floats:
        raise UserError(
            f"{folder} holds numbers of type {', '.join(kinds) or 'none'}, and models are read from float32, float16 and "
            "bfloat16; take the model that was not quantised"
        )
    dtype = floats[0]
    for other in floats[1:]:
        dtype = torch.promote_types(dtype, other)
    return WeightFiles(name, folder, files, dtype, tuple(kind for kind in FLOATS if kind in kinds))


def _described_gguf(name: str, file: Path) -> WeightFiles:
    gguf = optional("gguf", "manyheads[gguf]", "a GGUF file")
    try:
        kinds = Counter(tensor.tensor_type.name for tensor in gguf.GGUFReader(file).tensors)
    except Exception as error:  # gguf, on a file that nobody has checked before
        raise UserError(f"{file} is damaged or no GGUF file: {first_line(error)}") from None
    return WeightFiles(
        name, file.parent, (file,), torch.float32, tuple(kind for kind, _ in kinds.most_common()), file.name
    )


def hf_config(files: WeightFiles) -> dict[str, Any]:
    """The object of the folder's config.json; that of a GGUF file is made by transformers."""
    if files.gguf is not None:
        transformers = optional("transformers", "manyheads[hf]", "a GGUF file")
        config = quietly(
            lambda: transformers.AutoConfig.from_pretrained(files.folder, gguf_file=files.gguf), repr(files.name)
        )
        return dict(config.to_dict())
    file = files.folder / "config.json"
    config = read_json(file)
    if not isinstance(config, dict):
        raise UserError(f"{file} holds no JSON object; fetch it again")
    if config.get("quantization_config"):
        raise UserError(f"{file} says that the weights are quantised; take the model that was not quantised")
    return config


def hf_module(files: WeightFiles, config: Mapping[str, Any], arch: Arch, dtype: torch.dtype) -> ForeignModule:
    """The model as transformers builds it: of the class that its configuration names, or else of that for the kind of
    head that the record has."""
    transformers = optional("transformers", "manyheads[hf]")
    if config.get("model_type") == "manyheads":
        from . import hf  # noqa: F401 (registers manyheads with the Auto classes)
    named = getattr(transformers, str(next(iter(config.get("architectures") or ()), "")), None)
    stated = isinstance(named, type) and issubclass(named, transformers.PreTrainedModel)
    auto: Any = named if stated else getattr(transformers, auto_class(arch))
    settings: dict[str, Any] = {"gguf_file": files.gguf} if files.gguf else {"use_safetensors": True}
    settings |= {"dtype": dtype, "ignore_mismatched_sizes": True, "output_loading_info": True}
    module, info = quietly(lambda: auto.from_pretrained(files.folder, **settings), repr(files.name))
    wrong = [
        f"{name} is {tuple(there)} there and {tuple(here)} by config.json"
        for name, there, here in info["mismatched_keys"]
    ]
    if wrong:
        raise UserError(f"hf:{files.name} does not hold what its config.json says: {'; '.join(wrong[:3])}")
    missing, unused = frozenset(info["missing_keys"]), tuple(sorted(info["unexpected_keys"]))
    return ForeignModule(module.eval(), "hf", missing, unused)


def auto_class(arch: Arch) -> str:
    """The Auto class of transformers for a record's kind of head."""
    match arch.head:
        case Lm():
            return "AutoModelForCausalLM"
        case Masked():
            return "AutoModelForMaskedLM"
        case Features():
            return "AutoModel"
        case _ if isinstance(arch.embed, Token):
            return "AutoModelForSequenceClassification"
        case _:
            return "AutoModelForImageClassification"


def quietly(call: Callable[[], Any], what: str) -> Any:
    """`call()` in silence; an error of it as a sentence about `what`."""
    try:
        with weights_only(), silence():
            return call()
    except Exception as error:  # transformers, on a configuration and files that nobody has checked before
        raise UserError(f"transformers cannot load {what}: {first_line(error)}") from None


@contextmanager
def silence() -> Iterator[None]:
    """Inside, transformers shows no progress bars, warnings and reports."""
    logging = optional("transformers.utils.logging", "manyheads[hf]")
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):  # some bars are no logger's
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
