"""A copy of the tree whose compiled core carries the address and undefined behaviour sanitizers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "fuzz"
COPIED = ("kprod", "tests", "pyproject.toml", "README.md", "LICENSE")
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
# What the targets import; the rest of the core would only cost compile time.
MODULES = (
    *("layout", "batch_reader", "batch_rewrite", "block_frames", "message_set"),
    *("clock", "murmur2", "key_hash", "chunks", "batch", "future", "append", "tally", "bulk"),
    *("arrow_columns", "arrow_source", "arrow_rows", "arrow_send"),
)
_EXTENSION_TABLE = "[[tool.setuptools.ext-modules]]"
_BUILD = "from setuptools import setup; setup()"


class BuildError(Exception):
    """The sanitized core could not be built."""


def sanitized_tree() -> Path:
    """Make or refresh the copy of the tree, and build its core.

    Returns:
        Its root; what did not change is not compiled again.
    """
    tree = OUT / "tree"
    _refresh(ROOT, tree)
    _compile(tree)
    return tree


def planted_tree(patch: Path, clean: Path) -> Path:
    """Copy a sanitized tree and plant a bug in it.

    Args:
        patch: A unified diff against the tree's root.
        clean: The sanitized tree.

    Returns:
        The root of the copy.
    """
    tree = OUT / f"planted-{patch.stem}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(clean, tree, symlinks=True)
    _call(["git", "apply", "--unsafe-paths", f"--directory={tree}", str(patch)], cwd=Path("/"))
    _compile(tree)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Variables for an interpreter that loads the sanitized core from `tree`."""
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_PRELOAD": _runtime_library(),
        # The interpreter itself leaks at exit. A refused allocation is no crash.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def _runtime_library() -> str:
    found = _call([os.environ.get("CC", "gcc"), "-print-file-name=libasan.so"], cwd=ROOT).strip()
    if not Path(found).is_absolute():
        msg = "the compiler has no libasan.so; install its sanitizer runtime"
        raise BuildError(msg)
    return str(Path(found).resolve())


def _refresh(source: Path, tree: Path) -> None:
    """Copy what changed, so that unchanged modules keep their times and are not compiled again."""
    for name in COPIED:
        origin = source / name
        paths = [origin] if origin.is_file() else sorted(origin.rglob("*"))
        for path in paths:
            if path.is_dir() or path.suffix in {".so", ".c", ".pyc"}:
                continue
            copy = tree / path.relative_to(source)
            content = path.read_bytes()
            if name == "pyproject.toml":
                content = _settings(content.decode()).encode()
            if path == origin / "__init__.py":
                # The public names would import all of the core; the targets name what they need.
                content = b""
            if not copy.exists() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)


def _settings(text: str) -> str:
    """Keep the extensions that are fuzzed, optimized so little that reads stay in place."""
    head, *tables = text.split(_EXTENSION_TABLE)
    # The last table ends where the settings of other tools begin.
    last, *rest = re.split(r"(?m)^(?=\[tool\.)", tables[-1])
    tables[-1] = last
    kept = [
        _EXTENSION_TABLE + table.replace('"-O3"', '"-O1"')
        for table in tables
        if any(f'"kprod._core.{name}"' in table for name in MODULES)
    ]
    return "".join((head, *kept, *rest))


def _compile(tree: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _BUILD, "-q", "build_ext", "--inplace"]
    _call([*command, "--parallel", "2"], cwd=tree, CFLAGS=SANITIZERS)


def _call(command: list[str], *, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode:
        msg = f"{' '.join(command[:3])} … failed in {cwd}:\n{(done.stdout + done.stderr)[-3000:]}"
        raise BuildError(msg)
    return done.stdout
