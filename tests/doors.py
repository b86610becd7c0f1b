"""Finds the outside inputs of a module: clocks, sockets, threads, random numbers, process hashes.

A simulation replaces the modules that own these inputs, so any other use differs from run
to run.
"""

import ast
import re
from collections.abc import Iterator

MODULES = frozenset(
    {
        "_thread",
        "concurrent",
        "datetime",
        "multiprocessing",
        "queue",
        "sched",
        "secrets",
        "select",
        "selectors",
        "socket",
        "threading",
        "time",
    }
)
"""A module that imports one of these uses it."""

CALLS = frozenset({"os.getrandom", "os.urandom", "uuid.uuid1", "uuid.uuid4"})
"""Modules of which only these functions are inputs."""

RANDOM_TYPE = "random.Random"  # whose objects come from the environment: as an annotation only

# In a Cython module: imports, and uses, outside of texts and comments.
_TEXT_OR_COMMENT = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*", re.DOTALL
)
_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|[^\n]+)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*c?import\s+([^\n]+)", re.MULTILINE)
_HASH = re.compile(r"(?<![\w.])hash\s*\(")
_EXTERN = re.compile(r"extern from \"(<[\w/.]+>)\"")
_C_MODULES = {"posix.time": "time", "libc.time": "time", "cpython.pythread": "threading"}


def doors_of(name: str, text: str) -> set[str]:
    """Name the outside inputs that a module uses.

    Args:
        name: Name of its file.
        text: Its source.

    Returns:
        Names of modules, "random", `CALLS`, "hash", and headers of the system as "<name.h>".
    """
    return set(_doors_of_tree(ast.parse(text)) if name.endswith(".py") else _doors_of_text(text))


def _doors_of_tree(tree: ast.Module) -> Iterator[str]:
    annotations = set(_annotation_nodes(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _door_of_import(alias.name, None, alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield from _door_of_import(node.module, alias.name)
        elif isinstance(node, ast.Attribute):
            yield from _door_of_use(ast.unparse(node), is_annotation=node in annotations)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "hash":
            yield "hash"


def _annotation_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        annotation = None
        if isinstance(node, ast.arg | ast.AnnAssign):
            annotation = node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotation = node.returns
        if annotation is not None:
            yield from ast.walk(annotation)


def _door_of_import(module: str, name: str | None, other: str | None = None) -> Iterator[str]:
    """Return the inputs opened by `import module as other`, or `from module import name`."""
    root, _, _ = module.partition(".")
    if root in MODULES:
        yield root
    elif f"{module}.{name}" in CALLS:
        yield f"{module}.{name}"
    elif module == "random" and (name or other):
        yield "random"  # its uses would not be seen


def _door_of_use(used: str, *, is_annotation: bool) -> Iterator[str]:
    """Return the inputs opened by `module.name`."""
    module, _, name = used.partition(".")
    if used in CALLS:
        yield used
    elif module == "random" and name.isidentifier() and not (used == RANDOM_TYPE and is_annotation):
        yield "random"


def _doors_of_text(text: str) -> Iterator[str]:
    yield from _EXTERN.findall(text)
    code = _TEXT_OR_COMMENT.sub('""', text)
    for module, names in _FROM.findall(code):
        if module in _C_MODULES:
            yield _C_MODULES[module]
        for name in re.findall(r"\w+", names):
            yield from _door_of_import(module, name)
    for modules in _IMPORT.findall(code):
        for module in modules.split(","):
            name = module.split()[0]
            if name == "random" or name in _C_MODULES:
                yield _C_MODULES.get(name, name)
            yield from _door_of_import(name, None)
    yield from (call for call in CALLS if call in code)
    if _HASH.search(code):
        yield "hash"
