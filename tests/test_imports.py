"""The modules that an import loads: few, and none that only some programs need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kprod

# Calls that make code of a text, or start a program; modules that make objects of one.
RUNS_A_TEXT = frozenset({"eval", "exec", "compile", "__import__", "system", "popen", "Popen"})
MAKES_OBJECTS = frozenset({"pickle", "marshal", "shelve", "yaml", "runpy"})

# Standard library that a producer needs; names that begin with "_" are parts of these.
STANDARD = frozenset(
    """abc array ast atexit bisect collections contextlib contextvars copy dataclasses dis
    enum errno fcntl functools heapq inspect itertools importlib keyword linecache logging math
    opcode operator platform queue random re reprlib select selectors signal socket string struct
    textwrap threading time token tokenize traceback types typing uuid warnings weakref
    annotationlib pathlib fnmatch locale ntpath copyreg""".split()
)
BUILT = {"cython_runtime"}  # every compiled module has it, beside `_cython_…`


def _loaded(code: str) -> set[str]:
    """Return the top-level packages that a program loads after the interpreter has started."""
    return {name.split(".")[0] for name in _modules(code)}


def _modules(code: str) -> set[str]:
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def _below(package: str, code: str) -> set[str]:
    return {name for name in _modules(code) if f"{name}.".startswith(f"{package}.")}


# Cython packs the texts of a large module, such as the record block's, by zlib.
@pytest.mark.parametrize(("face", "unpacks"), [("Producer", set()), ("Consumer", {"zlib"})])
def test_a_face_loads_what_it_needs(face: str, unpacks: set[str]) -> None:
    """No asyncio, no TLS, no JSON, no codec, no package but kprod."""
    found = {name for name in _loaded(f"from kprod import {face}") if not name.startswith("_")}
    assert found - STANDARD - BUILT - unpacks == {"kprod"}


def test_the_package_alone_loads_neither_face() -> None:
    """Errors, interfaces and values: what a module needs that only names them."""
    found = _below("kprod", "import kprod; kprod.KprodError, kprod.RecordMetadata, dir(kprod)")
    assert found == {
        *("kprod", "kprod.errors", "kprod.interfaces", "kprod.model", "kprod.peer_text"),
        *("kprod.secret", "kprod.version"),
    }


@pytest.mark.parametrize(
    ("face", "other"),
    [
        *(("Producer", "consumer"), ("Consumer", "producer")),
        *(("AsyncProducer", "consumer"), ("AsyncConsumer", "producer")),
    ],
)
def test_a_face_loads_nothing_of_the_other(face: str, other: str) -> None:
    """They share what talks to brokers, and no more."""
    assert _below(f"kprod.{other}", f"from kprod import {face}") == set()


@pytest.mark.parametrize("face", ["Producer", "Consumer"])
def test_a_face_defines_no_dataclass(face: str) -> None:
    """Python compiles each at import, and loads `inspect` with them: a sixth of the time."""
    assert "dataclasses" not in _loaded(f"from kprod import {face}") - _loaded("import logging")


@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("kprod.AsyncProducer", "asyncio"),
        ("kprod.AsyncConsumer", "asyncio"),
        ("kprod.serialization.serialize_json({})", "orjson"),
        ("kprod.compression.compress(1, b'')", "zlib"),
        ("kprod.compression.compress(2, b'')", "snappy"),
        ("kprod.compression.compress(3, b'')", "lz4"),
        ("kprod.compression.compress(4, b'')", "zstandard"),
        ("kprod.Producer(bootstrap_servers='127.0.0.1:1').close()", "crc32c"),
    ],
)
def test_the_rest_is_loaded_when_it_is_asked_for(code: str, package: str) -> None:
    """Each package comes with the call that needs it."""
    assert package in _loaded(f"import kprod, kprod.compression, kprod.serialization\n{code}")


def test_names_that_are_loaded_late_are_listed() -> None:
    """`dir` shows them before they are loaded, and a wrong name is an AttributeError."""
    code = (
        "import kprod; assert 'AsyncProducer' in dir(kprod); assert not hasattr(kprod, 'Nothing')"
    )
    assert "asyncio" not in _loaded(code)


def test_the_pytest_plugin_loads_nothing_of_kprod() -> None:
    """Pytest loads it in every project's runs, wherever kprod is installed."""
    assert "kprod" not in _loaded("import pytest_kprod")


def test_no_text_becomes_code() -> None:
    """No call and no module that could: so no setting, and no peer, makes code run."""
    sources = sorted(Path(kprod.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    found = [
        f"{source.name}:{getattr(node, 'lineno', 0)}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if _can_run_a_text(node)
    ]
    assert found == []


def _can_run_a_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _called(node) in RUNS_A_TEXT or any(it.arg == "shell" for it in node.keywords)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] in MAKES_OBJECTS
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in MAKES_OBJECTS for alias in node.names)
    return False


def _called(call: ast.Call) -> str:
    """Name of a function that is called; of `re.compile` and other methods of a pattern, none."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    is_of_os = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "os"
    return call.func.attr if is_of_os and isinstance(call.func, ast.Attribute) else ""
