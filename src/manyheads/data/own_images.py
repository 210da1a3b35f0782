"""Images of one's own in a layout that others use, as the folder with train/CLASS/* and val/CLASS/* that tasks read.

Two layouts are understood: folders of classes, below train and val (or valid, validation, test) or without a split, as
torchvision's ImageFolder has them; and tables with the images in a column, as Hugging Face datasets have them. What is
made from them lies below the data root, in own/NAME-KEY. It holds links where files exist already. The key depends on
the content of tables and of image files, so that other images have another name. It does not depend on where they lie:
the links are set anew when the same images are given from another place."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import PARTIAL, unwritten

from .image_folders import SUFFIXES
from .made_once import OWN, made_once
from .tables import StoredTable, open_table

HELD = 0.1  # share of each class that is held out where the files have no split
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev", "test", "testing", "eval")}
LABELS = ("label", "labels", "fine_label", "class", "target")
KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"BM": "bmp", b"RIFF": "webp", b"II*\0": "tif", b"MM\0*": "tif"}
WHOLE = 8 << 30  # bytes of image files up to which their whole content counts
BEGINNING = 4096  # bytes of each file that count where the files have more, beside its size
LOOKED, FEW = 1000, 10  # entries of a folder, and folders in it, that are looked at to see what it holds


def split_folders(folder: Path) -> dict[str, Path]:
    """The folders of the splits train and val, by the names that people give them; the first name that exists."""
    found = {}
    for split, names in SPLITS.items():
        place = next((folder / name for name in names if (folder / name).is_dir()), None)
        if place is not None:
            found[split] = place
    return found


def has_classes(folder: Path) -> bool:
    """Whether a folder holds folders of images."""
    with os.scandir(folder) as entries:
        inside = [Path(entry.path) for entry in islice(entries, LOOKED) if entry.is_dir()]
    return any(_holds_images(place) for place in inside[:FEW])


def _holds_images(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.name.lower().endswith(SUFFIXES) for entry in islice(entries, LOOKED))


def own_images(folder: Path, root: Path) -> str:
    """The name below the data root of an image folder: its own where it lies there in our layout, else that of the
    folder of links that is made."""
    splits = split_folders(folder)
    if "train" in splits and "val" in splits:
        if folder.resolve().is_relative_to(root.resolve()) and all(splits[name].name == name for name in SPLITS):
            return folder.resolve().relative_to(root.resolve()).as_posix()
        files = {split: _by_class(place) for split, place in splits.items()}
    else:
        files = _divided(_by_class(splits.get("train", folder)))
    links = {
        f"{split}/{name}/{link}": file
        for split, classes in files.items()
        for name, listed in classes.items()
        for link, file in listed.items()
    }
    place = root / OWN / f"{folder.resolve().name}-{_key(_contents(links))}"
    made_once(place, lambda made: _link(made, links), f"the folder of {folder}")
    try:
        _link(place, links)
    except OSError as error:
        raise unwritten(place, error) from error
    return place.relative_to(root).as_posix()


def _link(place: Path, links: Mapping[str, Path]) -> None:
    """Make every link below `place` that is not there, or that leads elsewhere: to a folder that was moved, or to files
    of the same content when the folder was made. A link is replaced in one step, so that whoever trains is not
    disturbed."""
    for name, file in links.items():
        link, target = place / name, os.path.realpath(file)
        if os.path.realpath(link) == target:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        new = link.with_name(f".{link.name}.{os.getpid()}{PARTIAL}")
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        new.replace(link)


def _contents(links: Mapping[str, Path]) -> list[str]:
    """A line for each link: its name, and the size and the sha256 of what it leads to."""
    lines = []
    try:
        sizes = {name: file.stat().st_size for name, file in links.items()}
        whole = sum(sizes.values()) <= WHOLE
        for name, path in links.items():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256") if whole else hashlib.sha256(file.read(BEGINNING))
            lines.append(f"{name} {sizes[name]} {digest.hexdigest()}")
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}; replace or remove it") from None
    return lines


Listed = dict[str, Path]  # the images of a class by the names of the links to them


def _by_class(folder: Path) -> dict[str, Listed]:
    """The images of each class, those in folders below it too."""
    classes = {}
    for place in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        images = sorted(file for file in place.rglob("*") if file.name.lower().endswith(SUFFIXES))
        if images:
            classes[place.name] = _named(images, place)
    if len(classes) < 2:
        raise UserError(f"{folder} has {len(classes)} folders of images; write a folder for each class, two or more")
    return classes


def _named(images: Sequence[Path], place: Path) -> Listed:
    """Names for the links to images below `place`; where x/y-z.jpg and x-y/z.jpg would have the same, one is numbered."""
    links: Listed = {}
    for file in images:
        name = link = "-".join(file.relative_to(place).parts)
        number = 1
        while link in links:
            number += 1
            link = f"{number}-{name}"
        links[link] = file
    return links


def _divided(classes: Mapping[str, Listed]) -> dict[str, dict[str, Listed]]:
    """A tenth of each class held out: the images whose names have the lowest hashes."""
    train, val = {}, {}
    for name, images in classes.items():
        if len(images) < 2:
            raise UserError(f"class {name} has one image; it takes two or more, one of them to be held out")
        ranked = sorted(images, key=lambda link: hashlib.sha256(link.encode(errors="surrogateescape")).digest())
        held = set(ranked[: max(1, round(HELD * len(images)))])
        val[name] = {link: file for link, file in images.items() if link in held}
        train[name] = {link: file for link, file in images.items() if link not in held}
    return {"train": train, "val": val}


def _key(lines: Sequence[str]) -> str:
    text = "\n".join(sorted(lines)).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:12]


# --------------------------------------------------------------------------------------------------------------- tables
def image_column(table: StoredTable) -> str | None:
    """The column that holds images: bytes, or bytes beside a path, as Hugging Face's Image feature has them."""
    for field in table.schema:
        kind = str(field.type)
        if kind in ("binary", "large_binary") or (kind.startswith("struct<") and "bytes: binary" in kind):
            return str(field.name)
    return None


def own_tables(files: Mapping[str, Sequence[Path]], name: str, root: Path) -> str:
    """The name below the data root of the image folder that is made of tables, by split. Without a split val, a tenth of
    the images is held out: every tenth of each class."""
    content = hashlib.sha256()
    for split, paths in sorted(files.items()):
        for path in paths:
            with path.open("rb") as file:
                content.update(f"{split} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    folder = root / OWN / f"{name}-{content.hexdigest()[:12]}"
    return made_once(folder, lambda place: _unpack(files, place), f"the images of {name}").relative_to(root).as_posix()


def _unpack(files: Mapping[str, Sequence[Path]], place: Path) -> None:
    """Write the images of tables as files, class by class."""
    for split, paths in files.items():
        counts: dict[str, int] = {}
        for path in paths:
            for label, data in _labelled(open_table(path)):
                counts[label] = counts.get(label, 0) + 1
                held = split == "train" and "val" not in files and counts[label] % round(1 / HELD) == 2
                folder = place / ("val" if held else split) / label
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{counts[label]:07}.{_ending(data, path)}").write_bytes(data)


def _labelled(table: StoredTable) -> Iterator[tuple[str, bytes]]:
    """The images of a table with the names of their classes."""
    image = image_column(table)
    label = next((name for name in LABELS if name in table.columns), None)
    if image is None or label is None:
        lacks = "images" if image is None else "labels"
        raise UserError(
            f"{table.path} has no column of {lacks}; it has {', '.join(table.columns)}, and the label is one of "
            f"{', '.join(LABELS)}"
        )
    names = _class_names(table, label)
    for number, (value, own) in enumerate(table.rows([image, label]), 1):
        data = value.get("bytes") if isinstance(value, dict) else value
        if not data or own is None:
            raise UserError(f"row {number} of {table.path} has no {'label' if data else 'bytes in it'}; take it out")
        yield names.get(own, str(own)).replace("/", "_"), data


def _class_names(table: StoredTable, label: str) -> dict[Any, str]:
    """The names of the classes by their numbers, as Hugging Face writes them into a table. The number comes first, so
    that the classes keep their order."""
    text = (table.schema.metadata or {}).get(b"huggingface")
    try:
        names = json.loads(text)["info"]["features"][label]["names"] if text else []
    except (ValueError, KeyError, TypeError):
        names = []
    width = len(str(len(names)))
    return {number: f"{number:0{width}}_{name}" for number, name in enumerate(names)}


def _ending(data: bytes, path: Path) -> str:
    for magic, ending in KINDS.items():
        if data.startswith(magic):
            return ending
    raise UserError(f"{path} holds an image of a kind that is not read here; it begins {data[:8]!r}")
