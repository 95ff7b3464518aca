"""A table as text for a terminal and as Markdown for a file: the same cells, two dresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Table:
    """A titled table of strings.

    Attributes:
        title: what the rows are.
        header: names of the columns.
        rows: one string a column each.
        notes: sentences below the table.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """For a terminal: columns aligned by spaces, numbers to the right."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        numeric = [all(_is_number(row[i]) for row in self.rows) for i in range(len(self.header))]

        def line(cells: Sequence[str]) -> str:
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, numeric, strict=True)
            ]
            return "  ".join(padded).rstrip()

        rule = "  ".join("─" * width for width in widths)
        return "\n".join([self.title, "", line(self.header), rule, *map(line, self.rows), "", *self.notes, ""])

    def markdown(self) -> str:
        """For a file."""
        numeric = [all(_is_number(row[i]) for row in self.rows) for i in range(len(self.header))]
        rows = [self.header, ["--:" if right else "---" for right in numeric], *self.rows]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        notes = [f"{note}\n" for note in self.notes]
        return "\n".join([f"### {self.title}", "", *lines, "", *notes])


def _is_number(cell: str) -> bool:
    return bool(cell) and (cell[0].isdigit() or cell[0] in "-−–+<")
