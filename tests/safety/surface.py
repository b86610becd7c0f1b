"""Lists the compiled modules' names that Python can reach: types, functions and signatures.

An extension type has fields that its `__init__` sets and that C code then reads. So its surface is
everything that Python may call on an object of it, however that object came about. Signatures come
from the stub (`.pyi`) of a `.pyx` module, and from the source of a compiled `.py`.
"""

import ast
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import kprod

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, not a C struct of our own


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a signature.

    Attributes:
        name: The parameter's name.
        annotation: Annotation in the source; empty without one.
        is_keyword: Given by name only.
    """

    name: str
    annotation: str
    is_keyword: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, without `self` and `*more`."""

    name: str
    parameters: tuple[Parameter, ...]
    is_property: bool = False


@functools.cache
def compiled_modules() -> dict[str, ModuleType]:
    """Every compiled module of kprod, by name."""
    found = {}
    for each in pkgutil.walk_packages(kprod.__path__, "kprod."):
        path = Path(getattr(each.module_finder, "path", "")) / each.name.rpartition(".")[2]
        if not each.ispkg and list(path.parent.glob(f"{path.name}.*.so")):
            module = importlib.import_module(each.name)
            assert isinstance(module.__loader__, ExtensionFileLoader), f"{each.name} is interpreted"
            found[each.name] = module
    return found


@functools.cache
def extension_types() -> dict[str, type]:
    """Every extension type, by its full name."""
    return {
        f"{name}.{value.__name__}": value
        for name, module in compiled_modules().items()
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == name and not value.__flags__ & _HEAP_TYPE
    }


def declared_types() -> Iterator[str]:
    """The full name of each `cdef class` that the sources declare."""
    for name, module in compiled_modules().items():
        source = Path(str(module.__file__))
        stem = source.with_name(source.name.partition(".")[0])
        text = stem.with_suffix(".pyx" if stem.with_suffix(".pyx").exists() else ".pxd").read_text()
        for line in text.splitlines():
            if line.startswith("cdef class ") and line.rstrip().endswith(":"):
                yield f"{name}.{line.removeprefix('cdef class ').partition('(')[0].strip(' :')}"


@functools.cache
def _tree(module_name: str) -> ast.Module:
    source = Path(str(compiled_modules()[module_name].__file__))
    stem = source.with_name(source.name.partition(".")[0])
    stub = stem.with_suffix(".pyi")
    return ast.parse((stub if stub.exists() else stem.with_suffix(".py")).read_text("utf-8"))


def signatures_of(kind: type) -> dict[str, Signature]:
    """The signatures of a type's methods and properties, inherited ones of kprod too."""
    found: dict[str, Signature] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ in compiled_modules():
            found |= {
                item.name: _signature(item, is_method=True)
                for node in _tree(base.__module__).body
                if isinstance(node, ast.ClassDef) and node.name == base.__name__
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def functions_of(module_name: str) -> dict[str, Signature]:
    """The signatures of a module's public functions."""
    return {
        node.name: _signature(node, is_method=False)
        for node in _tree(module_name).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and hasattr(compiled_modules()[module_name], node.name)
    }


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> Signature:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    positional = [*node.args.posonlyargs, *node.args.args]
    if is_method and "staticmethod" not in marks:
        positional = positional[1:]
    return Signature(
        node.name,
        tuple(
            Parameter(each.arg, ast.unparse(each.annotation) if each.annotation else "", is_keyword)
            for group, is_keyword in ((positional, False), (node.args.kwonlyargs, True))
            for each in group
        ),
        is_property="property" in marks,
    )
