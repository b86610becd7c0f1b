"""Python modules that are compiled as they stand: their `.pxd` and their source say the same.

An attribute has two homes: the `.pxd` has its type in C, the source its value. `__slots__` would be
a third. Where the `.pxd` names a class, the source must name that class or a subclass of it.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kprod"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.with_suffix(".pxd").exists())
PLAIN = {
    *("object", "int", "bint", "double", "Py_ssize_t", "int16_t", "int32_t", "int64_t"),
    *("list", "dict", "tuple", "set", "str", "bytes", "bytearray"),
}
_BASES = re.compile(r"^(?:cdef )?class (\w+)\(([\w, ]+)\)", re.MULTILINE)
_CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:\n((?:    .*\n|\n)*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^    cdef (?:public |readonly )?(\w+) (\w+)$", re.MULTILINE)

Types = dict[str, str]


def _declared(source: Path) -> dict[str, Types]:
    """The type of each attribute, by class, as the `.pxd` says."""
    text = source.with_suffix(".pxd").read_text("utf-8") + "\n"
    return {
        name: {attribute: kind for kind, attribute in _ATTRIBUTE.findall(body)}
        for name, _, body in _CLASS.findall(text)
    }


def _bases() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.p[xy]*"):
        if path.suffix in {".py", ".pyx"}:
            text = path.read_text("utf-8")
            for name, bases in re.findall(
                r"^(?:cdef )?class (\w+)\(([\w, ]+)\)", text, re.MULTILINE
            ):
                found.setdefault(name, set()).update(re.findall(r"\w+", bases))
    return found


def _functions(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef):
            yield each


def _is_own(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _assigned(node: ast.ClassDef) -> dict[str, set[str]]:
    """The names in each attribute's known types, by attribute."""
    found: dict[str, set[str]] = {}
    for function in _functions(node):
        every = [*function.args.args, *function.args.kwonlyargs]
        known = {each.arg: each.annotation for each in every if each.annotation}
        for target, names in _assignments(function, known):
            if _is_own(target):
                assert isinstance(target, ast.Attribute)
                found.setdefault(target.attr, set()).update(names)
    return found


def _assignments(
    function: ast.FunctionDef, known: dict[str, ast.expr]
) -> Iterator[tuple[ast.expr, set[str]]]:
    """Each target that a function assigns to, with the names in its type."""
    for each in ast.walk(function):
        if isinstance(each, ast.AnnAssign):
            yield each.target, _words(each.annotation)
        elif isinstance(each, ast.Assign):
            names = _words_of_value(each.value, known)
            pairs = [getattr(target, "elts", [target]) for target in each.targets]
            yield from ((one, names) for one in itertools.chain.from_iterable(pairs))


def _words_of_value(value: ast.expr, known: dict[str, ast.expr]) -> set[str]:
    if isinstance(value, ast.Name) and value.id in known:
        return _words(known[value.id])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return {value.func.id}
    return set()


def _words(annotation: ast.expr) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(annotation)))


def _classes(source: Path) -> Iterator[tuple[ast.ClassDef, Types]]:
    declared = _declared(source)
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in declared:
            yield node, declared[node.name]


def test_there_are_such_modules() -> None:
    """The tests below would pass without any."""
    assert sum(1 for source in SOURCES for _ in _classes(source)) > 30


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_an_attribute_has_two_homes(source: Path) -> None:
    """The attributes that the source assigns are declared in the `.pxd`, or in a base class."""
    inherited = {
        attribute
        for other in SOURCES
        for attributes in _declared(other).values()
        for attribute in attributes
    }
    for node, declared in _classes(source):
        assigned = _assigned(node).keys()
        assert declared.keys() <= assigned, node.name
        assert assigned <= declared.keys() | (inherited if node.bases else set()), node.name
        named = {
            target.id
            for each in node.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        assert "__slots__" not in named, node.name


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_type_that_is_read_is_the_type_that_rules(source: Path) -> None:
    """A class in the `.pxd` is the annotation's class, or a base class of it."""
    bases = _bases()
    for node, declared in _classes(source):
        assigned = _assigned(node)
        for attribute, kind in declared.items():
            if kind in PLAIN:
                continue
            names = assigned[attribute]
            wider = names | {base for name in names for base in bases.get(name, set())}
            assert kind in wider, f"{node.name}.{attribute}: {kind} in C, {names} in Python"
