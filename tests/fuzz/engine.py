"""The loop of one target: choose an input, change it, check it, keep new ones.

Runs inside the interpreter with the sanitized build. The input under check is in a file before
it is checked, so that it survives an abort.
"""

import json
import mmap
import random
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.target import INTERESTING, Mutator, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

INPUT_BYTES_MAX = 64 * 1024
POOL_MAX = 2_000
_LENGTH_BYTES = 4
_CHANGES_MAX = 4
_BATCH = 64


def _flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
    return bytes(changed)


def _number(rng: random.Random, content: bytes) -> bytes:
    width = rng.choice((1, 2, 4, 4, 8))
    if len(content) < width:
        return content
    place = rng.randrange(len(content) - width + 1)
    raw = (rng.choice(INTERESTING) & ((1 << 8 * width) - 1)).to_bytes(
        width, rng.choice(("big", "little"))
    )
    return content[:place] + raw + content[place + width :]


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _remove(rng: random.Random, content: bytes) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.randrange(1, 9) :]


def _insert(rng: random.Random, content: bytes) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.randrange(1, 9)) + content[place:]


def _double(_: random.Random, content: bytes) -> bytes:
    return content + content


PLAIN: tuple[Mutator, ...] = (_flip, _flip, _overwrite, _number, _number, _cut, _remove, _insert)
PLAIN += (_double,)


def mutate(rng: random.Random, target: Target, content: bytes) -> bytes:
    """Change an input a few times, mostly with regard to its structure."""
    for _ in range(rng.randrange(1, _CHANGES_MAX)):
        structured = target.mutators and rng.random() < 0.7
        mutators: Sequence[Mutator] = target.mutators if structured else PLAIN
        mutator: Mutator = rng.choice(mutators)
        content = mutator(rng, content)
    return content[:INPUT_BYTES_MAX]


class Recorder:
    """A file that always holds the input under check."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        path.write_bytes(bytes(_LENGTH_BYTES + INPUT_BYTES_MAX))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def record(self, content: bytes) -> None:
        """Put the input where a post-mortem finds it."""
        end = _LENGTH_BYTES + len(content)
        self._map[:end] = len(content).to_bytes(_LENGTH_BYTES, "big") + content


def recorded(path: Path) -> bytes:
    """Read back the input under check when the process died."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:_LENGTH_BYTES], "big")
    return raw[_LENGTH_BYTES : _LENGTH_BYTES + length]


def run(target: Target, corpus: list[bytes], seconds: float, seed: int, record: Path) -> None:
    """Fuzz one target; print a line of JSON with the counts and the inputs of new behaviour.

    Args:
        target: The function to fuzz.
        corpus: Inputs to begin with, besides the target's own seeds.
        seconds: How long.
        seed: Seed of the random choices.
        record: File for the input under check.
    """
    rng = random.Random(seed)
    recorder = Recorder(record)
    pool = [content for content in [*target.seeds(), *corpus] if len(content) <= INPUT_BYTES_MAX]
    seen: dict[str, bytes] = {}
    executions = 0
    for content in pool:
        recorder.record(content)
        seen.setdefault(target.check(content), content)
        executions += 1
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for _ in range(_BATCH):
            content = mutate(rng, target, rng.choice(pool))
            recorder.record(content)
            outcome = target.check(content)
            executions += 1
            if outcome not in seen and len(pool) < POOL_MAX:
                seen[outcome] = content
                pool.append(content)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "executions": executions,
                "outcomes": len(seen),
                "peak_mib": peak_kib // 1024,
                "kept": {outcome: content.hex() for outcome, content in seen.items()},
            }
        ),
        file=sys.stdout,
    )
