"""Build a wheel as a release does, twice, and check it: `make wheel`.

The sources are packed, unpacked into two directories and built there, without a compiler's cache.
Both wheels must be the same, byte for byte. The wheel is tagged for the oldest C library that it
runs on, and `dist/` holds it and the sources when every check has passed.

Thread-safety: runs alone in a tree; the two builds run one after the other.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tools.wheel_limits import INSTALLED_BYTES_MAX, ZIPPED_BYTES_MAX

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MIB = 1 << 20

STAMP = "1767225600"
"""Time of every file in a wheel and in an archive of sources: 2026-01-01."""


def main() -> None:
    """Build, compare, check, and tell what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--once", action="store_true", help="do not build a second time")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kprod-wheel-") as folder:
        place = Path(folder)
        sources = build_sources(place / "sources")
        wheels = [
            build(sources, place / str(number)) for number in range(1 if arguments.once else 2)
        ]
        if len(wheels) > 1 and digest(wheels[0]) != digest(wheels[1]):
            sys.exit("two builds differ:\n" + "\n".join(differences(*wheels)))
        check(sources, wheels[0])
        arguments.out.mkdir(exist_ok=True)
        for path in (sources, wheels[0]):
            (arguments.out / path.name).write_bytes(path.read_bytes())
    print(f"built {len(wheels)} times; sha256 {digest(arguments.out / wheels[0].name)}")
    print(*contents(arguments.out / wheels[0].name), sep="\n")


def environment() -> dict[str, str]:
    """Return what a build may know of this machine: no cache, one time for all files."""
    return {
        **{name: value for name, value in os.environ.items() if name != "DIST_EXTRA_CONFIG"},
        "CCACHE_DISABLE": "1",
        "SOURCE_DATE_EPOCH": STAMP,
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }


def run(*words: str | Path, cwd: Path = ROOT, more: Mapping[str, str] | None = None) -> str:
    """Run a command to its end.

    Args:
        words: The command.
        cwd: Working directory.
        more: Additions to the environment.

    Returns:
        The command's output.

    Raises:
        SystemExit: It failed; the text is its output.
    """
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment() | dict(more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}:\n{done.stdout[-6_000:]}")
    return done.stdout


def build_sources(target: Path) -> Path:
    """Pack the sources; return the archive."""
    run("uv", "build", "--sdist", "--no-build-isolation", "--quiet", "--out-dir", target)
    (archive,) = target.glob("*.tar.gz")
    return archive


def build(sources: Path, place: Path) -> Path:
    """Build a wheel of packed sources in a directory of its own, and tag it.

    Args:
        sources: Sources from `build_sources`.
        place: An empty directory, or none.

    Returns:
        The wheel.
    """
    with tarfile.open(sources) as archive:
        archive.extractall(place, filter="data")
    (tree,) = place.iterdir()
    # Two compilers at a time; what they write does not depend on it.
    config = place / "build.cfg"
    config.write_text("[build_ext]\nparallel=2\n", encoding="utf-8")
    run(
        *("uv", "build", "--wheel", "--no-build-isolation", "--quiet", "--out-dir", place / "raw"),
        cwd=tree,
        more={"DIST_EXTRA_CONFIG": str(config)},
    )
    (raw,) = (place / "raw").glob("*.whl")
    if sys.platform != "linux":
        return raw
    run(
        *("auditwheel", "repair", "--plat", "auto", "--zip-compression-level", "9"),
        *("--wheel-dir", place / "tagged", raw),
    )
    (tagged,) = (place / "tagged").glob("*.whl")
    return tagged


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(first: Path, second: Path) -> Iterator[str]:
    """Name the members of two wheels that are not the same."""
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        names = {it.filename: it for it in one.infolist()}
        others = {it.filename: it for it in other.infolist()}
        for name in sorted(names.keys() | others.keys()):
            if name not in names or name not in others:
                yield f"{name}: in one only"
            elif one.read(name) != other.read(name):
                yield f"{name}: its bytes"
            elif names[name].date_time != others[name].date_time:
                yield f"{name}: its time"
    yield "(nothing more: else the order or the names of the archives differ)"


def check(sources: Path, wheel: Path) -> None:
    """Check what a package index and an installer look at.

    Args:
        sources: The archive of the sources.
        wheel: Tagged.

    Raises:
        SystemExit: Something is wrong; the text says what.
    """
    run("twine", "check", "--strict", sources, wheel)
    if sys.platform == "linux":
        shown = run("auditwheel", "show", wheel)
        (tag,) = (part for part in wheel.stem.split("-")[-1].split(".")[:1])
        if tag not in shown:
            raise SystemExit(f"{wheel.name} is tagged for another system:\n{shown}")
    for name, text in bills_of(wheel).items():
        version = SchemaVersion.from_version(json.loads(text)["specVersion"])
        if (fault := JsonStrictValidator(version).validate_str(text)) is not None:
            raise SystemExit(f"{name} is no valid bill of materials: {fault}")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    with zipfile.ZipFile(wheel) as archive:
        if not any(name.endswith(suffix) for name in archive.namelist()):
            raise SystemExit(f"{wheel.name} has no extension module for this interpreter")
        installed = sum(member.file_size for member in archive.infolist())
    for what, size, limit in (
        ("zipped", wheel.stat().st_size, ZIPPED_BYTES_MAX),
        ("installed", installed, INSTALLED_BYTES_MAX),
    ):
        if size > limit:
            raise SystemExit(
                f"{wheel.name} has {size:,} bytes {what}, at most {limit:,} are allowed"
                " (tools/wheel_limits.py)"
            )


def bills_of(wheel: Path) -> dict[str, str]:
    """Return the bills of materials in a wheel by name: kprod's, and what auditwheel did."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.search(r"\.dist-info/sboms/.", name)]
        if not any(name.endswith("/kprod.cdx.json") for name in names):
            raise SystemExit(f"{wheel.name} has no bill of materials of kprod")
        return {name: archive.read(name).decode() for name in names}


def contents(wheel: Path) -> Iterator[str]:
    """Tell the name and the size of a wheel, and how many files of each kind it holds."""
    yield f"{wheel.name}: {wheel.stat().st_size / MIB:.2f} MiB"
    with zipfile.ZipFile(wheel) as archive:
        members = [it for it in archive.infolist() if not it.is_dir()]
    yield f"installed: {sum(it.file_size for it in members) / MIB:.2f} MiB in {len(members)} files"
    kinds: dict[str, list[int]] = {}
    for member in members:
        is_own = ".dist-info/" in member.filename
        kind = "metadata" if is_own else Path(member.filename).suffix
        kinds.setdefault(kind, []).append(member.file_size)
    for kind, sizes in sorted(kinds.items()):
        yield f"  {kind:10} {len(sizes):4} files {sum(sizes) / MIB:6.2f} MiB"


if __name__ == "__main__":
    main()
