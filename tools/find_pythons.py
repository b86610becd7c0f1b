"""Print the installed CPythons that kprod is tested on, besides the one that runs this.

One line each: version, executable, and the tests to run. Looked for on PATH and among pyenv's
versions; an executable counts if it runs, is CPython of that version, and has what compiling needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ((3, 11), (3, 12), (3, 13))
EVERYTHING = "tests"
OF_THE_INTERPRETER = (
    "tests/_core tests/aio tests/network tests/producer tests/safety tests/serialization tests/sim"
    " tests/test_compiled_python.py tests/test_imports.py tests/test_reprs.py"
    " tests/test_subclasses.py"
)
"""Compiled code, threads, locks, signals, forks and asyncio: what a version between the oldest and
the newest, which have every test of their selections, can have of its own."""

_QUESTION = """
import ensurepip, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
usable = sys.implementation.name == "cpython" and os.path.exists(header)
print(*sys.version_info[:2]) if usable else sys.exit(1)
"""


def candidates(version: tuple[int, int]) -> Iterator[str]:
    """Return executables that may be a version, the likeliest first."""
    name = f"python{version[0]}.{version[1]}"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found:
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for installed in sorted(pyenv.glob(f"versions/{version[0]}.{version[1]}.*/bin/{name}")):
        yield str(installed)


def is_usable(executable: str, version: tuple[int, int]) -> bool:
    """Return whether an executable runs, is that version, and can compile and make environments."""
    try:
        answer = subprocess.run(
            [executable, "-c", _QUESTION], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.split() == [str(part) for part in version]


def main() -> None:
    """Print one line for each version found."""
    for version in VERSIONS:
        if version == sys.version_info[:2]:
            continue
        tests = EVERYTHING if version in {VERSIONS[0], VERSIONS[-1]} else OF_THE_INTERPRETER
        for executable in candidates(version):
            if is_usable(executable, version):
                print(f"{version[0]}.{version[1]} {executable} {tests}")
                break


if __name__ == "__main__":
    main()
