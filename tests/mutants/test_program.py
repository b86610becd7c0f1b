"""The choice and order of mutants, the estimated time, and a run's exit code."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.mutants import program
from tests.mutants.commands import Commands, Stopped
from tests.mutants.kept import KeptResults
from tests.mutants.planting import FOUND, NOT_FOUND
from tests.mutants.workers import Result

ROOT = Path(__file__).resolve().parent.parent.parent
MUTANTS = [
    {"name": name, "breaks": "a promise", "test": ["tests"]} for name in ("cow", "hen", "pig")
]
LIMIT_S = 60.0


@pytest.fixture
def kept(tmp_path: Path) -> KeptResults:
    """Return results in which the pig took a minute, and the hen ten seconds."""
    results = KeptResults(tmp_path / "kept", tmp_path)
    results.keep("pig", "1", 60.0)
    results.keep("hen", "2", 10.0)
    return results


def test_mutants_are_chosen_by_name() -> None:
    """No name is all; the order is the table's; a name that is not there is an error."""
    assert program.chosen(MUTANTS, []) == MUTANTS
    assert [each["name"] for each in program.chosen(MUTANTS, ["pig", "cow"])] == ["cow", "pig"]
    with pytest.raises(ValueError, match="no such mutant: dog; there are cow, hen, pig"):
        program.chosen(MUTANTS, ["cow", "dog"])


def test_the_longest_are_begun_first(kept: KeptResults) -> None:
    """A fault that was never run may take the longest of all."""
    ordered = program.longest_first(MUTANTS, kept)
    assert [each["name"] for each in ordered] == ["cow", "pig", "hen"]


@pytest.mark.parametrize(
    ("waiting", "taken", "jobs", "seconds"),
    [
        (["pig", "hen"], [], 1, 70.0),
        (["pig", "hen"], [], 2, 35.0),
        (["pig", "cow"], [], 1, 120.0),  # unknown: as long as the known ones
        (["pig", "cow"], [4.0, 6.0], 1, 65.0),  # or as what this run took
        ([], [5.0], 1, 0.0),
        (["cow"], [], 1, None),
    ],
)
def test_the_time_left_is_what_it_took_before(
    kept: KeptResults, waiting: list[str], taken: list[float], jobs: int, seconds: float | None
) -> None:
    """Lengths of earlier runs, spread over the workers."""
    assert program.seconds_left(waiting, kept, taken, jobs) == seconds


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([FOUND, FOUND, FOUND], 0),
        ([FOUND, NOT_FOUND, FOUND], 1),
        (["patch does not apply"], 1),
        ([FOUND, FOUND], 130),
        ([], 130),
    ],
)
def test_the_exit_code_says_whether_all_were_found(outcomes: list[str], code: int) -> None:
    """One that was not found counts more than those that were not run."""
    results = [Result("any", outcome, 1.0) for outcome in outcomes]
    assert program.exit_code(MUTANTS, results) == code


def test_the_table_has_a_row_for_each(kept: KeptResults) -> None:
    """Those that were run, kept, or not run."""
    del kept
    table = program.table_of(MUTANTS, [Result("hen", FOUND, 9.6), Result("pig", FOUND)])
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["cow", "hen", "pig"]
    assert cells[1] == ["not run", FOUND, FOUND]
    assert cells[2] == ["", "10", "kept"]


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    """The child holds the output open, so that waiting for its end shows that it is gone."""
    script = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import threading; threading.Event().wait()'])"
    )
    ended = Commands(1.0).run([sys.executable, "-c", script], tmp_path, os.environ)
    assert ended.code is None


def test_what_a_command_writes_is_kept(tmp_path: Path) -> None:
    """Both streams, and the exit code."""
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    ended = Commands(LIMIT_S).run([sys.executable, "-c", script], tmp_path, os.environ)
    assert ended.code == 3
    assert {"out", "err"} <= set(ended.output.split())


def test_stopping_ends_what_runs_and_begins_no_more(tmp_path: Path) -> None:
    """A run that would wait for ever is ended, and its caller told."""
    commands = Commands(LIMIT_S)
    is_stopped = threading.Event()
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    script = f"open({str(fifo)!r}, 'w').close(); import threading; threading.Event().wait()"

    def run() -> None:
        try:
            commands.run([sys.executable, "-c", script], tmp_path, os.environ)
        except Stopped:
            is_stopped.set()

    thread = threading.Thread(target=run)
    thread.start()
    fifo.read_bytes()  # returns when the command has opened its end
    commands.stop()
    thread.join(LIMIT_S)
    assert is_stopped.is_set()
    with pytest.raises(Stopped):
        commands.run([sys.executable, "-c", ""], tmp_path, os.environ)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """The copies are removed, what ran is ended, and the exit code says that it is not all."""
    child = subprocess.Popen(
        [sys.executable, "tests/mutants/run.py", "--fresh", "timer_wakeup_outside_lock"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    never = threading.Event()
    for _ in range(600):
        if child.poll() is not None or any(tmp_path.glob("*/original")):
            break
        never.wait(0.1)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode == program.EXIT_INTERRUPTED, output
    assert "interrupted; the next run continues from here" in output
    assert "not run" in output
    assert list(tmp_path.iterdir()) == []
