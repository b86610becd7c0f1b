"""A copy of the tree whose compiled core carries the address and undefined behaviour sanitizers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "fuzz"
COPIED = ("tests", "tools", "setup.py", "pyproject.toml", "README.md", "LICENSE")
# Optimized so little that reads stay in place.
SANITIZERS = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
_IMPORTED = re.compile(r"^\s*from (kprod[\w.]*) c?import ([\w, ]+|\([^)]*\))", re.MULTILINE)


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
        # The interpreter itself leaks at exit. A failed allocation is no crash.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def _runtime_library() -> str:
    found = _call([os.environ.get("CC", "gcc"), "-print-file-name=libasan.so"], cwd=ROOT).strip()
    if not Path(found).is_absolute():
        raise BuildError("the compiler has no libasan.so; install its sanitizer runtime")
    return str(Path(found).resolve())


def _refresh(source: Path, tree: Path) -> None:
    """Make a copy of what the targets need.

    Unchanged files keep their time, so that they are not compiled again.
    """
    wanted = {path for name in COPIED for path in _files(source / name)} | imported_files(source)
    for path in sorted(wanted):
        copy = tree / path.relative_to(source)
        # The public names would import all of the core; the targets name what they need.
        content = b"" if path == source / "kprod/__init__.py" else path.read_bytes()
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    kept = {tree / path.relative_to(source) for path in wanted}
    for path in (tree / "kprod").rglob("*.p*"):
        if path.suffix in {".py", ".pyx", ".pxd"} and path not in kept:
            path.unlink()


def _files(origin: Path) -> list[Path]:
    found = [origin] if origin.is_file() else sorted(origin.rglob("*"))
    return [path for path in found if path.is_file() and path.suffix not in {".so", ".c", ".pyc"}]


def imported_files(source: Path) -> set[Path]:
    """Find what the targets import from the package, directly or not.

    A compiled `.py` comes without its types and runs interpreted: only the core is fuzzed.

    Args:
        source: Root of the tree.

    Returns:
        Paths of sources and headers, those of `__init__.py` included.
    """
    found: set[Path] = set()
    left = sorted((source / "tests/fuzz").glob("*.py"))
    while left:
        path = left.pop()
        for module in _imports(path):
            stem = source.joinpath(*module.split("."))
            candidates = [stem.with_suffix(".pyx"), stem.with_suffix(".py"), stem / "__init__.py"]
            if not stem.with_suffix(".py").exists():
                candidates.append(stem.with_suffix(".pxd"))
            new = [file for file in candidates if file.exists() and file not in found]
            found |= set(new)
            left += [file for file in new if file != source / "kprod/__init__.py"]
    return found


def _imports(path: Path) -> set[str]:
    """Name each module that a file may import, and the packages around it."""
    names = set()
    for module, things in _IMPORTED.findall(path.read_text("utf-8")):
        names |= {module, *(f"{module}.{thing}" for thing in re.findall(r"\w+", things))}
    parts = [name.split(".") for name in names]
    return {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}


def _compile(tree: Path) -> None:
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace"]
    variables = {"KPROD_CFLAGS": SANITIZERS, "LDFLAGS": SANITIZERS}
    _call([*command, "--parallel", "2"], cwd=tree, **variables)


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
        raise BuildError(
            f"{' '.join(command[:3])} … failed in {cwd}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout
