"""The corpora: inputs that once were new behaviour, a line of hexadecimal digits each."""

from pathlib import Path

DIRECTORY = Path(__file__).parent / "corpus"
_INPUT_BYTES_MAX = 400
_INPUTS_MAX = 200


def load(name: str) -> list[bytes]:
    """Read a target's corpus; empty when there is none."""
    path = DIRECTORY / f"{name}.hex"
    if not path.exists():
        return []
    return [bytes.fromhex(line) for line in path.read_text(encoding="ascii").split()]


def save(name: str, inputs: list[bytes]) -> None:
    """Add inputs to a target's corpus, short ones only."""
    wanted = {content for content in [*load(name), *inputs] if 0 < len(content) <= _INPUT_BYTES_MAX}
    ordered = sorted(wanted, key=lambda some: (len(some), some))
    # Every n-th of the sorted ones, so that all lengths are kept.
    step = max(1, len(ordered) // _INPUTS_MAX)
    lines = [content.hex() for content in ordered[::step]]
    DIRECTORY.mkdir(exist_ok=True)
    (DIRECTORY / f"{name}.hex").write_text("\n".join(lines) + "\n", encoding="ascii")
