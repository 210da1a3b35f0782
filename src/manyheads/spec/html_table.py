"""Rows as an HTML table: what a notebook shows of a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of `rows` under `titles`, with a sentence above it. All text is escaped."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    above = f"<p>{escape(caption)}</p>" if caption else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
