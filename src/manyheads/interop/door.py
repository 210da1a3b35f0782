"""One door for trained models: `hf:FOLDER`, `timm:NAME`, `run:FOLDER` or a saved folder becomes a model of ours.

    model = load("hf:FOLDER")                   the module, with its trained weights
    report = convert("hf:FOLDER", "lean")       the folder that every command takes
    report.lines()                              what was mapped and what was not

What a record cannot say, or a map does not carry, is refused before anything is written."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.arch.count import params
from manyheads.models import store
from manyheads.models.build import allocate, build
from manyheads.models.stream import write_tensors
from manyheads.models.twins.tensors import TwinTensor
from manyheads.spec import files as json_files
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Features, Token

from . import foreign_source, foreign_timm, read_hf
from .folder_tokenizer import has_tokenizer, read_tokenizer
from .foreign_source import ForeignModule, WeightFiles
from .new_folder import new_folder, refuse_existing
from .twin_state import LIBRARIES, POOLER, Mapped, computed, listed, mapped

SOURCE, GENERATION = "source.json", "generation_config.json"
POOLED = "head.pooler."
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# what a folder holds beside its weights, and stays with the model
# fmt: off
SIDE = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "chat_template.jinja", "preprocessor_config.json", GENERATION,
)
# keys of a config.json that no record has, and that go back with the model
KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "id2label", "label2id")
# fmt: on


@dataclass(frozen=True)
class Report:
    """Where converted weights come from, and what became of each tensor. `tied` are names that show another tensor once
    more; `buffers` are computed here; `left_out` belongs to another task; `missing` is in none of the files. `config` is
    what the library's config.json says."""

    name: str
    library: str
    kind: str
    family: str
    parameters: int
    tensors: int
    dtype: str
    stored: str
    sha256: str
    files: tuple[str, ...]
    tied: dict[str, str]
    buffers: tuple[str, ...]
    left_out: tuple[str, ...]
    left_out_parameters: int
    missing: tuple[str, ...]
    config: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str]]:
        """What people read: names and values."""
        rows = [
            ("source", f"{self.name}, {self.kind}"),
            ("sha256", self.sha256 + ("" if len(self.files) == 1 else f" of {len(self.files)} files")),
            ("mapped", f"{self.tensors} tensors to family {self.family}, {self.parameters:,} parameters"),
            ("dtype", self.stored),
        ]
        ties = [f"{name} is {source}" for name, source in self.tied.items()]
        rows += [("tied", "; ".join(ties))] if ties else []
        rows += [("unused buffers", listed(self.buffers))] if self.buffers else []
        if self.left_out:
            rows.append(("left out", f"{listed(self.left_out)}, {self.left_out_parameters:,} parameters"))
        rows += [("missing", f"{listed(self.missing)}; training draws them")] if self.missing else []
        return rows


@dataclass
class Trained:
    """A model of ours whose tensors are made one by one of somebody's trained weights."""

    mapped: Mapped
    report: Report
    files: WeightFiles | None

    @property
    def arch(self) -> Arch:
        """The record."""
        return self.mapped.arch


def trained(name: str, *, dtype: str | None = None, headless: bool = False) -> Trained:
    """The trained model that `name` stands for. `dtype` is the type of its numbers, if it is not to be that of the
    files. With `headless`, a head that the files lack is left open; without, such files are refused."""
    if dtype is not None and dtype not in DTYPES:
        raise UserError(f"dtype {dtype}: write one of {', '.join(DTYPES)}, or leave it out to keep the files' own")
    wanted = None if dtype is None else DTYPES[dtype]
    folder = own_folder(name)
    if folder is not None:
        return _own(name, folder, wanted)
    library = name.partition(":")[0]
    files = weight_files(name)
    if library == "timm":
        arch, config = foreign_timm.timm_arch(files), foreign_timm.timm_config(files)
        foreign = foreign_timm.timm_module(files, files.dtype)
    else:
        config = foreign_source.hf_config(files)
        ours = config.get("model_type") == "manyheads"
        arch = record.arch_from_dict(config.get("arch")) if ours else read_hf.from_config(config)
        foreign = foreign_source.hf_module(files, config, arch, files.dtype)
        config |= {"architectures": config.get("architectures") or [type(foreign.module).__name__]}
    kind = type(foreign.module).__name__
    shapes = _shapes(files)
    result = _mapped(name, arch, foreign, shapes, wanted)
    if result.missing:
        _check_missing(name, result, headless)
    report = Report(
        name=name,
        library=LIBRARIES[library],
        kind=kind,
        family=arch.family,
        parameters=params(result.arch).total
        - sum(torch.Size(result.layout[each][1]).numel() for each in result.missing),
        tensors=len(result.entries) - len(result.missing),
        dtype=_word(wanted or files.dtype),
        stored=_stored(files, wanted),
        sha256=files.sha256,
        files=tuple(file.name for file in files.files),
        tied=result.tied,
        buffers=tuple(result.buffers),
        left_out=tuple(result.poolers),
        left_out_parameters=sum(_size(each, shapes, result) for each in result.poolers),
        missing=tuple(result.missing),
        config=config,
    )
    return Trained(result, report, files)


Shapes = dict[str, tuple[int, ...]]


def _shapes(files: WeightFiles) -> Shapes:
    """The shape of each tensor in the files; {} for GGUF, whose names are others."""
    shapes: Shapes = {}
    for file in () if files.gguf else files.files:
        shapes |= store.read_shapes(file)
    return shapes


def _size(name: str, shapes: Shapes, result: Mapped) -> int:
    return torch.Size(shapes[name]).numel() if name in shapes else result.state[name].numel()


def weight_files(name: str) -> WeightFiles:
    """The files of a model of another library, `hf:FOLDER`, `timm:NAME` or `timm:FOLDER`."""
    library, _, rest = name.partition(":")
    return foreign_timm.timm_files(rest) if library == "timm" else foreign_source.hf_files(rest)


def own_folder(name: str) -> Path | None:
    """The folder of a model that manyheads saved: a run's, a folder of its own, or one behind `hf:`. None for models of
    other libraries; any other name is refused."""
    prefix, _, rest = name.partition(":")
    foreign = prefix in LIBRARIES and rest
    folder = Path(rest if prefix in ("run", "hf") and rest else name)
    for place in (folder, folder / "model"):
        if (place / store.RECORD).is_file() and (place / store.WEIGHTS).is_file():
            return place
    if foreign:
        return None
    if (folder / "spec.json").is_file():
        raise UserError(f"{name} is a run that has no trained model yet; finish it: manyheads train --resume {folder}")
    if (folder / "config.json").is_file() or folder.suffix == ".gguf":
        raise UserError(f"{name} is a model of transformers or timm; write hf:{name} or timm:{name}")
    raise UserError(
        f"{name} holds no trained model; write hf:FOLDER, timm:NAME, run:FOLDER of a finished run, or the folder of a "
        "model that manyheads saved"
    )


def _mapped(name: str, arch: Arch, foreign: ForeignModule, shapes: Shapes, wanted: torch.dtype | None) -> Mapped:
    """The map of the module, with what the files hold beside it."""
    buffers = {each for each in foreign.unused if computed(each, len(shapes.get(each, ())))}
    poolers = {each for each in foreign.unused if POOLER.search(each)}
    unknown = [each for each in foreign.unused if each not in buffers | poolers]
    if unknown:
        raise UserError(
            f"{name} has {listed(unknown)} in its files that {type(foreign.module).__name__}, the class of its "
            "config.json, has no place for; nothing was converted"
        )
    result = mapped(arch, foreign.module, foreign.library, foreign.missing, wanted)
    if isinstance(arch.head, Features) and result.missing and all(each.startswith(POOLED) for each in result.missing):
        arch = replace(arch, head=replace(arch.head, pooler=None))  # no configuration says that there is none
        result = mapped(arch, foreign.module, foreign.library, foreign.missing, wanted)
    read = {their for entry in result.entries.values() for their in entry.theirs} | result.tied.keys()
    buffers |= {each for each, shape in shapes.items() if each not in read and computed(each, len(shape))}
    result.buffers = sorted(buffers.union(result.buffers))
    result.poolers = sorted(poolers.union(result.poolers) - foreign.missing)
    return result


def _check_missing(name: str, result: Mapped, headless: bool) -> None:
    """Refuse weights without a tensor that no task can do without."""
    beyond = [tensor for tensor in result.missing if not tensor.startswith("head.")]
    if beyond:
        raise UserError(f"the files of {name} lack what {listed(beyond)} would be made of; fetch them again, whole")
    if not headless:
        raise UserError(
            f"the files of {name} have no head for this model: they lack {listed(result.missing)}. Train one on them: "
            f"manyheads train --weights {name}"
        )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _stored(files: WeightFiles, wanted: torch.dtype | None) -> str:
    """The type of the numbers in words: kept, widened or rounded."""
    there, kept = ", ".join(files.types), _word(files.dtype)
    if files.gguf is not None:
        base = f"float32, computed from {there} of the GGUF file"
    elif len(files.types) > 1:
        base = f"{kept}, which holds {there} of the files exactly"
    else:
        base = f"{kept}, as in the files"
    if wanted is None or wanted == files.dtype:
        return base
    exact = torch.promote_types(wanted, files.dtype) == wanted
    return f"{_word(wanted)}, {'exactly' if exact else 'rounded'} from {kept}"


def _own(name: str, folder: Path, wanted: torch.dtype | None) -> Trained:
    """A model that manyheads saved."""
    arch = record.load(folder / store.RECORD)
    files = foreign_source.described(name, folder, (folder / store.WEIGHTS,))
    state = store.read_weights(folder / store.WEIGHTS)
    model = build(arch, device="meta")
    store.check_fill(model, state, str(folder / store.WEIGHTS))
    layout = {
        tensor: (wanted if wanted is not None and value.is_floating_point() else value.dtype, tuple(value.shape))
        for tensor, value in state.items()
    }
    entries = {tensor: TwinTensor(tensor, (tensor,)) for tensor in state}
    result = Mapped(arch, entries, state, layout, tied={}, buffers=[], poolers=[], missing=[])
    before = _source(folder)
    report = Report(
        name=name,
        library="manyheads",
        kind=type(model).__name__,
        family=arch.family,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tensors=len(state),
        dtype=_word(wanted or files.dtype),
        stored=_stored(files, wanted),
        sha256=files.sha256,
        files=(store.WEIGHTS,),
        tied={},
        buffers=(),
        left_out=(),
        left_out_parameters=0,
        missing=(),
        config=before.get("config", {}),
    )
    return Trained(result, report, files)


def _source(folder: Path) -> dict[str, Any]:
    """What `convert` wrote about a folder's weights; {} where it did not make the folder."""
    found = record.read_json(folder / SOURCE) if (folder / SOURCE).is_file() else {}
    return found if isinstance(found, dict) else {}


def load(name: str, *, device: torch.device | str = "cpu") -> nn.Module:
    """The trained model that `name` stands for, as a module of ours in float32 and in evaluation mode."""
    return with_folder(name, device)[0]


def with_folder(name: str, device: torch.device | str = "cpu") -> tuple[nn.Module, Path, str | None]:
    """`load`, the folder that the model was read from, and the name of the GGUF file in it, if it is one."""
    folder = own_folder(name)
    if folder is not None:
        return store.load(folder, device=device).eval(), folder, None
    source = trained(name)
    assert source.files is not None
    return module(source, device), source.files.folder, source.files.gguf


def module(source: Trained, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> nn.Module:
    """The module of trained weights."""
    model = build(source.arch, device="meta").to(dtype)
    allocate(model, device)
    state = model.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(source.mapped.tensor(name))
    return model.eval()


def convert(name: str, out: Path | str, *, dtype: str | None = None, headless: bool = False) -> Report:
    """Write the trained model that `name` stands for as the folder `out`: record, weights, tokenizer, and in
    source.json where the weights come from. `dtype` and `headless` as in `trained`. The folder appears when it is whole."""
    out = Path(out)
    refuse_existing(out)
    source = trained(name, dtype=dtype, headless=headless)
    with new_folder(out) as place:
        write_sides(source, place)
        record.save(source.arch, place / store.RECORD)
        write_source(source, place)
        layout = {each: kind for each, kind in source.mapped.layout.items() if each not in source.mapped.missing}
        write_tensors(place / store.WEIGHTS, layout, source.mapped.tensor)
    return source.report


def write_source(source: Trained, place: Path) -> None:
    """Where the weights come from, and what of their configuration goes back with the model."""
    json_files.replace(place / SOURCE, json_files.dump(asdict(source.report)))


def write_sides(source: Trained, place: Path) -> None:
    """Tokenizer, image settings and end tokens."""
    files = source.files
    assert files is not None
    for name in SIDE:
        if (files.folder / name).is_file() and files.gguf is None:
            shutil.copyfile(files.folder / name, place / name)
    if isinstance(source.arch.embed, Token) and (files.gguf or has_tokenizer(files.folder)):
        settings = place / "tokenizer_config.json"
        stated = record.read_json(settings) if settings.is_file() else {}
        if not stated.get("tokenizer_class"):  # the class followed from config.json, which stays behind
            read_tokenizer(files.folder, files.gguf).save_pretrained(place)
    config = source.report.config
    ends = {key: config[key] for key in KEPT if key.endswith("_token_id") and config.get(key) is not None}
    if ends and not (place / GENERATION).exists():
        json_files.replace(place / GENERATION, json_files.dump(ends))
