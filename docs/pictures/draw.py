"""Write the pictures: `python -m docs.pictures.draw`, a part of `make docs`.

They lie beside this program, so that pages show them without the site; a test compares them with
what the code of today draws.
"""

from collections.abc import Iterator
from pathlib import Path

from docs.pictures import (
    accumulator,
    batch_layout,
    compaction,
    fetched_batch,
    group_rebalance,
    group_states,
    log_segment,
    simulated_run,
    timing_wheel,
)

FOLDER = Path(__file__).parent


def pictures() -> Iterator[tuple[Path, str]]:
    """Return each picture's file and its content."""
    modules = (
        *(accumulator, batch_layout, compaction, fetched_batch),
        *(group_rebalance, group_states, log_segment, simulated_run, timing_wheel),
    )
    for module in modules:
        name = module.__name__.rsplit(".", 1)[-1]
        yield FOLDER / f"{name}.svg", module.draw().svg()


def main() -> None:
    """Write the files."""
    for path, content in pictures():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
