"""Few dependencies, each with its reason, and those of development pinned with hashes."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
GROUPS: dict[str, list[str | dict[str, str]]] = SETTINGS["dependency-groups"]
UNTRIED_EXTRAS = {"azure", "msk"}  # tested with stand-ins, not installed here
REQUIRED = {"crc32c", "lz4", "python-snappy", "xxhash", "zstandard"}


def _names(requirements: list[str]) -> set[str]:
    names = {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower() for line in requirements}
    return names - {"kprod"}


def _group(name: str) -> set[str]:
    """Return the packages of a dependency group, those of groups that it includes with them."""
    found: set[str] = set()
    for entry in GROUPS[name]:
        found |= _group(entry["include-group"]) if isinstance(entry, dict) else _names([entry])
    return found


def test_required_dependencies_are_five() -> None:
    """Checksums and codecs; everything else is an extra."""
    assert _names(PROJECT["dependencies"]) == REQUIRED


def test_every_dependency_has_its_reason() -> None:
    """The page has a row for each package that pyproject names, and for no other."""
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = {name.lower() for name in re.findall(r"^\| ([\w-]+) \|", page, re.MULTILINE)}
    wanted = _names(PROJECT["dependencies"])
    for requirements in PROJECT["optional-dependencies"].values():
        wanted |= _names(requirements)
    for name in GROUPS:
        wanted |= _group(name)
    assert rows - {"package"} == wanted


def test_development_is_pinned_with_hashes() -> None:
    """Each locked package has one version and at least one hash; each wanted one is locked."""
    names = ("dev", "kerberos")  # the latter needs a library of the system
    locks = [(ROOT / "requirements" / f"{name}.txt").read_text("utf-8") for name in names]
    lock = "".join(locks)
    entries = re.split(r"\n(?=\w)", lock)
    assert [entry for entry in entries if "--hash=sha256:" not in entry or "==" not in entry] == []
    locked = {entry.split("==")[0].strip().lower() for entry in entries}
    wanted = _group("dev") | REQUIRED
    for extra, requirements in PROJECT["optional-dependencies"].items():
        if extra not in UNTRIED_EXTRAS:
            wanted |= _names(requirements)
    assert wanted - locked == set()


def test_development_is_no_extra() -> None:
    """The extras, which users install as `kprod[…]`, are for users."""
    assert set(PROJECT["optional-dependencies"]) == {
        *("arrow", "cli", "demo", "json", "opentelemetry", "perf", "prometheus", "spark"),
        *("gssapi", "gzip", "testing", "tls"),
        *UNTRIED_EXTRAS,
    }


def test_the_lock_fits_the_build() -> None:
    """Without build isolation the build takes these two from the environment."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    build = tomllib.loads(text)["build-system"]["requires"]
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").lower()
    assert [pin for pin in build if f"\n{pin.lower()} \\" not in f"\n{lock}"] == []
