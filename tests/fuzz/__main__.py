"""Run the fuzz targets against a sanitized build.

python -m tests.fuzz                        every target for a minute, then its planted bug
python -m tests.fuzz --jobs 1               one target at a time, not two
python -m tests.fuzz --target batch --seconds 600 --no-planted
python -m tests.fuzz --grow                 also add inputs of new behaviour to the corpora
python -m tests.fuzz --replay FILE --target batch
"""

import argparse
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz import build, corpus, engine
from tests.fuzz.targets import TARGETS

_GRACE_S = 120


def main() -> int:
    """Fuzz as the arguments say; 0 when nothing was found and every planted bug was."""
    options = _parser().parse_args()
    if options.child:
        target = TARGETS[options.child]
        record = build.OUT / f"{target.name}.input"
        inputs = corpus.load(target.name)
        if options.replay:
            print(target.check(options.replay.read_bytes()))
            return 0
        engine.run(target, inputs, options.seconds, options.seed, Path(options.record or record))
        return 0
    tree = build.sanitized_tree()
    with ThreadPoolExecutor(options.jobs) as pool:
        names = options.target or list(TARGETS)
        passed = list(pool.map(lambda name: _fuzz(name, tree, options), names))
    return 0 if all(passed) else 1


def _fuzz(name: str, tree: Path, options: argparse.Namespace) -> bool:
    """Fuzz the real code, then the one with the planted bug; True when all is as it should be."""
    is_sound = options.planted_only or _search(name, tree, options)
    return (options.no_planted or _find_planted(name, tree, options)) and is_sound


def _search(name: str, tree: Path, options: argparse.Namespace) -> bool:
    """Fuzz the real code; False for a finding."""
    done, record = _child(name, tree, options)
    if done.returncode and not record.exists():
        print(f"{name}: fuzzing did not begin:\n{done.stderr[-3000:]}")
        return False
    if done.returncode:
        found = engine.recorded(record)
        kept = build.OUT / f"finding-{name}.bin"
        kept.write_bytes(found)
        print(f"{name}: FINDING with {len(found)} bytes, seed {options.seed}: {found.hex()[:400]}")
        print(f"{name}: kept as {kept}\n{done.stderr[-3000:]}")
        return False
    figures = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{name}: {figures['executions']:,} executions in {options.seconds:g} s, "
        f"{figures['outcomes']} outcomes, peak {figures['peak_mib']} MiB, seed {options.seed}, "
        "no finding",
        flush=True,
    )
    if options.grow:
        corpus.save(name, [bytes.fromhex(raw) for raw in figures["kept"].values()])
    return True


def _find_planted(name: str, tree: Path, options: argparse.Namespace) -> bool:
    """Fuzz with the planted bug; False when it was not found in time."""
    patch = TARGETS[name].planted
    done, record = _child(name, build.planted_tree(patch, tree), options)
    if not done.returncode:
        print(f"{name}: the bug of {patch.name} was NOT found in {options.seconds:g} s")
        return False
    if not record.exists():
        print(f"{name}: fuzzing did not begin:\n{done.stderr[-3000:]}")
        return False
    lines = [line for line in done.stderr.splitlines() if "ERROR: Add" in line or "Finding" in line]
    what = (lines or done.stderr.splitlines() or ["nothing said"])[-1].strip()
    size = len(engine.recorded(record))
    print(
        f"{name}: the bug of {patch.name} was found with {size} bytes\n    {what[:160]}", flush=True
    )
    return True


def _child(
    name: str, tree: Path, options: argparse.Namespace
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run one target in an interpreter of its own."""
    record = build.OUT / f"{tree.name}-{name}.input"
    record.unlink(missing_ok=True)  # an earlier run's
    command = [sys.executable, "-m", "tests.fuzz", "--child", name, "--record", str(record)]
    command += ["--seconds", str(options.seconds), "--seed", str(options.seed)]
    if options.replay:
        command += ["--replay", str(options.replay.resolve())]
    done = subprocess.run(
        command,
        cwd=tree,
        env=build.environment(tree),
        check=False,
        capture_output=True,
        text=True,
        timeout=options.seconds + _GRACE_S,
    )
    return done, record


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each run, default 60")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time, default 2")
    parser.add_argument("--grow", action="store_true", help="add new inputs to the corpora")
    parser.add_argument("--no-planted", action="store_true", help="leave the planted bugs out")
    parser.add_argument("--planted-only", action="store_true", help="only the planted bugs")
    parser.add_argument("--replay", type=Path, help="check one input")
    parser.add_argument("--child", choices=list(TARGETS), help=argparse.SUPPRESS)
    parser.add_argument("--record", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
