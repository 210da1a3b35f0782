"""Tables in Parquet and Arrow files, as Hugging Face datasets are stored: their columns, and their rows in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError, first_line, optional

TABLES = (".arrow", ".parquet")


@dataclass(frozen=True)
class StoredTable:
    """One file: its schema, and `batches(columns)`, the rows of some columns a batch at a time."""

    path: Path
    schema: Any
    batches: Callable[[list[str]], Iterator[Any]]

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    def rows(self, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        """The values of some columns, row by row."""
        for batch in self.batches(columns):
            at = [batch.schema.get_field_index(name) for name in columns]
            yield from zip(*(batch.column(i).to_pylist() for i in at), strict=True)


def open_table(path: Path) -> StoredTable:
    """Open a Parquet or an Arrow file. Arrow files have one of two formats, and both are read."""
    arrow = optional("pyarrow", "pyarrow", f"reading {path}")
    try:
        if path.suffix == ".parquet":
            file = optional("pyarrow.parquet", "pyarrow", f"reading {path}").ParquetFile(path)
            return StoredTable(path, file.schema_arrow, lambda columns: file.iter_batches(columns=columns))
        optional("pyarrow.ipc", "pyarrow", f"reading {path}")
        source = arrow.memory_map(str(path))
        try:
            reader = arrow.ipc.open_stream(source)
        except arrow.ArrowInvalid:
            opened = arrow.ipc.open_file(source)
            count = opened.num_record_batches
            return StoredTable(path, opened.schema, lambda columns: (opened.get_batch(i) for i in range(count)))
        return StoredTable(path, reader.schema, lambda columns: reader)
    except (arrow.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read ({first_line(error)}); put a fresh copy in its place") from None


def listed_tables(folder: Path) -> list[Path]:
    """The tables below a folder in alphabetical order, without those that the library `datasets` keeps as its cache."""
    files = (file for file in folder.rglob("*") if file.suffix in TABLES)
    return sorted(file for file in files if not file.name.startswith("cache-"))
