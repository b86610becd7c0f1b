"""Use the wheel in `dist/` as a new user would: `make try-wheel`.

An environment without anything is made, and no compiler is on its path. The wheel is installed
there; `kprod demo` and the quick start run; its size and the cost of its import are told beside
confluent-kafka's; and the tests run on it.

Thread-safety: a program.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.docs.examples import read

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("cc", "gcc", "clang", "g++", "c++")
TESTED = ("tests", "benchmarks", "docs", "examples", "tools", "pyproject.toml", "README.md")
TIME_MAX = 2.0
MEMORY_MAX = 1.3
"""Limits of an import's time and memory, as multiples of confluent-kafka's."""

PEER = "import confluent_kafka"
IMPORTS = ("import kprod", "from kprod import Producer", "from kprod import Consumer")
"""First lines of programs; the peer's one line loads its producer and its consumer."""

_ROUNDS = 25
_COST = """
import sys, time
started = time.perf_counter()
{}
took = time.perf_counter() - started
pages = int(open("/proc/self/statm").read().split()[1])
print(took * 1e3, pages * 4)
"""


class Newcomer:
    """An empty environment, and a path with nothing but it and the shell's own commands.

    Args:
        place: An empty directory.
    """

    def __init__(self, place: Path) -> None:
        self.home = place / "environment"
        self.folder = place / "work"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(self.home)], check=True)
        commands = place / "commands"
        commands.mkdir()
        for name in ("sh", "env", "uname", "ldd", "cat"):
            if (found := shutil.which(name)) is not None:
                (commands / name).symlink_to(found)
        self.path = f"{self.home / 'bin'}:{commands}"
        present = [name for name in COMPILERS if shutil.which(name, path=self.path)]
        if present:
            sys.exit(f"a compiler is on the path: {present}")

    def run(self, *words: str | Path, cwd: Path | None = None) -> str:
        """Run a command there; what it prints is returned, and a failure ends the program."""
        done = subprocess.run(
            list(map(str, words)),
            cwd=cwd or self.folder,
            env={"PATH": self.path, "HOME": str(self.folder), "LANG": "C.UTF-8", **_index()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}:\n{done.stdout[-8_000:]}")
        return done.stdout


def _index() -> dict[str, str]:
    """Return where pip is told to look, on machines that have an index of their own."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheel", type=Path, nargs="?", help="the newest in dist/ if not given")
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests")
    parser.add_argument("--only-costs", action="store_true", help="measure the imports alone")
    arguments = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not (arguments.wheel or wheels):
        sys.exit("there is no wheel in dist/: `make wheel` builds one")
    wheel = (arguments.wheel or wheels[-1]).resolve()
    with tempfile.TemporaryDirectory(prefix="kprod-newcomer-") as folder:
        newcomer = Newcomer(Path(folder))
        install(newcomer, wheel)
        if not arguments.only_costs:
            demonstrate(newcomer)
            quick_start(newcomer)
        excess = costs(newcomer)
        if not (arguments.only_costs or arguments.no_tests):
            test(newcomer)
    sys.exit(excess)  # last, so that a busy machine hides no result


def install(newcomer: Newcomer, wheel: Path) -> None:
    """Install the wheel alone, look at it, then what the demonstration needs."""
    newcomer.run("pip", "install", "--only-binary", ":all:", wheel)
    print(newcomer.run("pip", "list", "--format", "freeze").replace("\n", " "))
    newcomer.run("python", "-c", "import kprod; kprod.Producer(bootstrap_servers='a:1').close(0)")
    newcomer.run("pip", "install", "--only-binary", ":all:", f"{wheel}[cli]")
    newcomer.run("pip", "install", "--no-deps", "-r", ROOT / "requirements" / "demo.txt")


def demonstrate(newcomer: Newcomer) -> None:
    """Run `kprod demo`."""
    print(newcomer.run("kprod", "demo"))


def quick_start(newcomer: Newcomer) -> None:
    """Run the first program of the quick start, and compare what the page says it prints."""
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    page = read(text.partition("## Find out")[0])
    (newcomer.folder / "first.py").write_text(page.program, encoding="utf-8")
    said = newcomer.run("python", "first.py")
    print("quick start:", said)
    if said.strip() != page.printed[0].strip():
        sys.exit(f"the page says: {page.printed[0]}")


def costs(newcomer: Newcomer) -> str | None:
    """Tell time and memory of each import beside confluent-kafka's, in turn.

    Returns:
        The excess in words; None if there is none.
    """
    newcomer.run("pip", "install", "--only-binary", ":all:", "confluent-kafka")
    taken: dict[str, list[list[float]]] = {line: [] for line in (PEER, *IMPORTS)}
    for _ in range(_ROUNDS):
        for line, rows in taken.items():
            text = newcomer.run("python", "-I", "-c", _COST.format(line))
            rows.append([float(word) for word in text.split()])
    middle = {
        line: [statistics.median(row[column] for row in rows[1:]) for column in (0, 1)]
        for line, rows in taken.items()
    }
    worst = [0.0, 0.0]
    for line, found in middle.items():
        ratios = [mine / other for mine, other in zip(found, middle[PEER], strict=True)]
        print(
            f"{line}: {found[0]:.1f} ms, {found[1]:,.0f} KiB;"
            f" {ratios[0]:.2f} of the peer's time, {ratios[1]:.2f} of its memory"
        )
        worst = list(map(max, worst, ratios))
    if worst[0] > TIME_MAX or worst[1] > MEMORY_MAX:
        return f"an import costs more than {TIME_MAX} of the time or {MEMORY_MAX} of the memory"
    return None


def test(newcomer: Newcomer) -> None:
    """Run the tests on the installed wheel, in a copy without the package."""
    newcomer.run("pip", "install", "--upgrade", "pip>=25.1")  # the first that knows groups
    newcomer.run(
        "pip", "install", "--only-binary", ":all:", "--group", f"{ROOT / 'pyproject.toml'}:test"
    )
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["tool"]["cibuildwheel"]["test-extras"]
    newcomer.run("pip", "install", "--only-binary", ":all:", f"kprod[{','.join(extras)}]")
    copy = newcomer.folder / "copy"
    copy.mkdir()
    for name in TESTED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    print(newcomer.run("python", "-m", "tools.test_wheel", cwd=copy)[-3_000:])


if __name__ == "__main__":
    main()
