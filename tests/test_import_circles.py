"""No module of kprod, nor of its benchmarks, needs itself: imports have no circle.

import-linter looks at layers, and neither inside them nor into compiled modules. Here every import
counts: those for types only, those inside functions, and `cimport`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The public names come from above, see `test_only_the_top_layers_import_the_public_names`.
FACADES = {"kprod"}

# Arrows that close a circle and stay; each is in the architecture page, with its reason.
KEPT_ARROWS = {("kprod.producer.batch", "kprod.producer.partition_queue")}

_COMPILED = re.compile(r"^\s*from +([\w.]+) +c?import +(\([^)]*\)|[^\n#]+)", re.MULTILINE)


def _module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Return pairs of a module and a name taken from it; the name is "" for the module itself."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for match in _COMPILED.finditer(text):
            yield from ((match[1], name) for name in re.findall(r"\w+", match[2]))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _graph(root: Path, under: str) -> dict[str, set[str]]:
    """Return what each module imports, of those that are here; a package is its `__init__`."""
    paths = [it for it in (root / under).rglob("*") if it.suffix in {".py", ".pyx", ".pxd"}]
    modules = {_module_of(path, root) for path in paths}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for path in paths:
        module = _module_of(path, root)
        for source, name in _imports_of(path):
            inner = f"{source}.{name}"
            wanted = inner if inner in modules else source
            if wanted in modules and wanted != module and wanted not in FACADES:
                graph[module].add(wanted)
    return graph


def _circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        ahead = list(graph[module])
        while ahead:
            found = ahead.pop()
            if found not in seen:
                seen.add(found)
                ahead += graph[found]
        reached[module] = seen
    groups = {
        tuple(sorted(it for it in seen if module in reached[it]))
        for module, seen in reached.items()
        if module in seen
    }
    return [list(group) for group in sorted(groups)]


def test_kprod_has_no_import_circle() -> None:
    """Apart from the arrows that are kept for a reason, and each of those is still needed."""
    graph = _graph(ROOT, "kprod")
    assert len(graph) > 200
    assert {(tail, head) for tail, head in KEPT_ARROWS if head not in graph[tail]} == set()

    without = {
        tail: {head for head in heads if (tail, head) not in KEPT_ARROWS}
        for tail, heads in graph.items()
    }

    assert _circles(without) == []


def test_the_benchmarks_have_no_import_circle() -> None:
    """They are programs beside each other and import by their bare names."""
    graph = _graph(ROOT / "benchmarks", "")
    assert "report" in graph

    assert _circles(graph) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    """By an import for types, by one in a function, and by a cimport of a declaration file."""
    (tmp_path / "pack").mkdir()
    for name, text in {
        "a.py": "if TYPE_CHECKING:\n    from pack.b import B\n",
        "b.py": "def late():\n    from pack import c\n",
        "c.pyx": "from libc.stdint cimport int64_t\n",
        "c.pxd": "from pack.a cimport (\n    A,\n)\n",
        "d.py": "import pack.a\n",
    }.items():
        (tmp_path / "pack" / name).write_text(text)

    assert _circles(_graph(tmp_path, "pack")) == [["pack.a", "pack.b", "pack.c"]]
