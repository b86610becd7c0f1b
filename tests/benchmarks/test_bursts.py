"""Contestants that work in turn, each in a process that stays."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import bursts  # noqa: E402 - lies beside the package
from bursts import BurstRounds  # noqa: E402

BURST_COUNT, SIZE = 3, 7


def command(name: str, path: Path, step: str = "") -> list[str]:
    """A program that writes down its bursts, and prints their sizes' sum."""
    return [
        "-c",
        f"""
import json, sys
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
from bursts import bursts_asked_for
count = 0
for size in bursts_asked_for():
    with open({str(path)!r}, "a") as file:
        file.write({name!r})
    {step}
    count += size
print("done")
print(json.dumps({{"count": count}}))
""",
    ]


def test_bursts_are_done_in_turn(tmp_path: Path) -> None:
    """Each round has new processes, and is asked for each contestant's figures."""
    log = tmp_path / "log"
    rounds = BurstRounds({name: command(name, log) for name in "ab"}, bursts=BURST_COUNT, size=SIZE)
    for _ in range(2):
        for name in "ba":
            assert rounds.next_figures(name) == {"count": BURST_COUNT * SIZE}
    assert log.read_text() == "ab" * BURST_COUNT * 2


@pytest.mark.parametrize("step", ["raise ValueError('mine')", "sys.exit('mine')"])
def test_a_program_that_fails(tmp_path: Path, step: str) -> None:
    """The text that it wrote says why."""
    programs = {
        "sound": command("s", tmp_path / "log"),
        "broken": command("b", tmp_path / "log", step),
    }
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1; it wrote.*mine"):
        BurstRounds(programs, bursts=BURST_COUNT, size=SIZE).run()


def test_a_program_that_says_why_on_its_standard_output() -> None:
    """All of it is in the error."""
    program = "print('first'); print('no broker'); raise SystemExit(1)"
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1; it wrote.*first\nno broker"):
        BurstRounds({"talkative": ["-c", program]}, bursts=1, size=SIZE).run()


def test_a_program_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, and named."""
    monkeypatch.setattr(bursts, "END_S", 0.1)
    program = command("slow", tmp_path / "log")
    program[1] += "import threading; threading.Event().wait()"
    with pytest.raises(RuntimeError, match="slow has not ended after its last burst"):
        BurstRounds({"slow": program}, bursts=1, size=SIZE).run()


def test_a_program_that_is_gone_before_its_burst() -> None:
    """It was never ready."""
    with pytest.raises(RuntimeError, match="exit code 0; it wrote"):
        BurstRounds({"gone": ["-c", "pass"]}, bursts=1, size=SIZE).run()
