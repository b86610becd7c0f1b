"""Old against new: what fails it, what a run's figures are, and where a tree comes from."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import source_trees
from old_and_new import (
    CPU,
    EXIT_FAILED,
    NEW,
    OLD,
    P50,
    PEER,
    RATE,
    Plan,
    Result,
    as_json,
    figures_of,
    main,
    slower_cases,
)
from source_trees import NoTree, checked_out, commit_of, source_tree, take_over

from tools.built_tree import BUILD_DIRECTORY, compiled_modules, stale_modules


def _result(**rates: float) -> Result:
    """Ten pairs, in which the new side has such a rate of each case, and the old one 1."""
    result = Result()
    for case, rate in rates.items():
        for _ in range(10):
            figures = {RATE: 1.0, CPU: 1.0}
            result.add(case, {OLD: figures, NEW: {RATE: rate, CPU: 0.5}, PEER: figures})
    return result


def test_a_case_fails_by_its_rate_alone() -> None:
    """A rate below the limit is slower; CPU time is shown and does not decide."""
    rows = list(_result(futures=0.96, callbacks=0.98, lone=2.0).rows())
    assert slower_cases(rows) == ["futures"]
    assert [row.verdict for row in rows] == ["SLOWER", "", "ok", "", "ok", ""]
    assert rows[1].to_old.median == pytest.approx(0.5)


def test_figures_are_per_second_and_per_record() -> None:
    """Single records have a latency too; appending alone is CPU time already."""
    run = {"count": 1_000.0, "elapsed_s": 2.0, "cpu_s": 0.5, "p50_us": 70.0}
    assert figures_of("futures", run) == {RATE: 500.0, CPU: 500.0}
    assert figures_of("lone", run) == {RATE: 500.0, CPU: 500.0, P50: 70.0}
    assert figures_of("append", run) == {RATE: 500.0}


def test_the_file_holds_every_ratio() -> None:
    """Samples, ratios and intervals, as JSON."""
    plan = Plan({OLD: Path("a"), NEW: Path("b")}, ["futures"], pairs=10, seconds=1.0, seed=3)
    written = json.loads(json.dumps(as_json(plan, list(_result(futures=0.5).rows()))))
    (rate, _) = written["rows"]
    assert rate["to_old"]["ratios"] == [0.5] * 10
    assert rate["to_old"]["interval"] == {"low": 0.5, "high": 0.5, "confidence": 1 - 22 / 1024}
    assert (rate["verdict"], written["seed"]) == ("SLOWER", 3)


def test_neither_a_tree_nor_a_commit_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of a failed run, and the text names the argument."""
    assert main(["--old", str(tmp_path / "nowhere")]) == EXIT_FAILED
    assert "nowhere" in capsys.readouterr().out


TABLES = """\
[[tool.setuptools.ext-modules]]
name = "kprod.cow"
sources = ["kprod/cow.py"]
depends = ["kprod/cow.pxd"]

[[tool.setuptools.ext-modules]]
name = "kprod.hen"
sources = ["kprod/hen.py"]
depends = ["kprod/hen.pxd"]
"""
BUILT_S = 1_000_000


def _tree(tree: Path) -> Path:
    """Write a tree with two compiled modules, not built."""
    (tree / "kprod").mkdir(parents=True)
    (tree / "pyproject.toml").write_text(TABLES, "utf-8")
    for module in compiled_modules(tree):
        for name in module.inputs:
            (tree / name).write_text(name, "utf-8")
    return tree


def _built(tree: Path) -> Path:
    """Write what a build leaves, after the sources."""
    for module in compiled_modules(tree):
        for name in module.inputs:
            os.utime(tree / name, (BUILT_S - 1, BUILT_S - 1))
        for name in module.outputs:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text("built", "utf-8")
            os.utime(tree / name, (BUILT_S, BUILT_S))
    return tree


def test_only_what_differs_is_left_to_be_built(tmp_path: Path) -> None:
    """A module whose sources are the same is taken over, with its times."""
    here, there = _built(_tree(tmp_path / "here")), _tree(tmp_path / "there")
    (there / "kprod/hen.pxd").write_text("another", "utf-8")
    take_over(here, there)
    assert list(stale_modules(there)) == ["kprod.hen"]
    cow, hen = compiled_modules(there)
    assert all((there / name).exists() for name in cow.outputs)
    assert not any((there / name).exists() for name in hen.outputs)
    assert any(name.startswith(BUILD_DIRECTORY) for name in cow.outputs)


def test_stale_modules_are_not_taken_over(tmp_path: Path) -> None:
    """An edited source has no build that could be right."""
    here, there = _built(_tree(tmp_path / "here")), _tree(tmp_path / "there")
    os.utime(here / "kprod/cow.py", (BUILT_S + 1, BUILT_S + 1))
    take_over(here, there)
    assert list(stale_modules(there)) == ["kprod.cow"]


def test_a_directory_must_be_up_to_date(tmp_path: Path) -> None:
    """A tree that would run old code is rejected, with the module and the way out."""
    tree = _built(_tree(tmp_path / "tree"))
    assert source_tree(str(tree)) == tree
    os.utime(tree / "kprod/cow.py", (BUILT_S + 1, BUILT_S + 1))
    with pytest.raises(NoTree, match=r"kprod\.cow was built before .*; run make setup there"):
        source_tree(str(tree))


def test_a_commit_is_checked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own name, whatever branch or tag was given, and also after the tree was deleted."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = _tree(tmp_path / "root")
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    author = ("-c", "user.name=t", "-c", "user.email=t@t.example")
    _git(root, *author, "commit", "--quiet", "--message", "first")
    _git(root, "tag", "v1")
    commit = commit_of("v1", root)
    assert len(commit) == 40
    tree = checked_out(commit, root)
    assert tree == root / source_trees.KEPT_IN / commit[:12]
    assert (tree / "kprod/cow.py").read_text("utf-8") == "kprod/cow.py"
    (tree / "kept").touch()
    assert checked_out(commit, root) == tree
    assert (tree / "kept").exists()
    (tree / "kprod/cow.py").write_text("edited", "utf-8")
    with pytest.raises(NoTree, match="somebody has edited it"):
        checked_out(commit, root)
    tree.rename(tmp_path / "moved away")
    assert checked_out(commit, root) == tree
    assert not (tree / "kept").exists()
    with pytest.raises(NoTree, match="neither"):
        commit_of("v2", root)


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, timeout=60)
