"""Prints values in columns, for people.

Thread-safety: pure functions.
"""

from collections.abc import Sequence

_SHORTEST_GAP = 2


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Format rows with aligned columns.

    Args:
        table: Rows of equally many cells.

    Returns:
        A line for each row.
    """
    widths = [max(map(len, column)) + _SHORTEST_GAP for column in zip(*table, strict=True)]
    return [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def printable(text: str) -> str:
    """Quote a text with characters that could control the terminal.

    Args:
        text: A text from the cluster.

    Returns:
        The text itself if it is printable.
    """
    return text if text.isprintable() else repr(text)


def shown_name(name: str) -> str:
    """Quote a name that would be hard to see in a table.

    Args:
        name: A name from the cluster, which may have any characters.

    Returns:
        The name itself if it is printable, not empty, and has no spaces.
    """
    return name if name.isprintable() and name and " " not in name else repr(name)
