"""Where a module goes through a set, whose order differs from one process to another.

It depends on addresses, or on how the process hashes texts; that of integers does not.
"""

import ast
from collections.abc import Iterator

# Functions whose result does not depend on the order of a set.
_ORDERLESS = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
_WALKS = frozenset({"enumerate", "iter", "list", "map", "tuple", "zip"})
_TAKES_MANY = frozenset({"extend", "extendleft", "fromkeys", "join", "writelines"})
_SETS = frozenset({"AbstractSet", "Set", "frozenset", "set"})


def sets_walked(text: str) -> Iterator[tuple[int, str]]:
    """Find where a Python module goes through a set of something else than integers.

    The order of such a set depends on addresses or on how the process hashes texts. What counts is
    what the module itself makes or annotates as a set: a set that comes from elsewhere, out of a
    call, is not seen.

    Args:
        text: The module's source.

    Yields:
        Line, and the iterated expression.
    """
    tree = ast.parse(text)
    fields = {name for name in _sets_made_in(tree) if "." in name}
    for scope in (tree, *_functions_of(tree)):
        names = fields | set(_sets_made_in(scope, nested=False))
        for walked in _walked_in(scope):
            if _is_set(walked, names):
                yield walked.lineno, ast.unparse(walked)


def _functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Everything in a module or a function, except the functions inside it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own_nodes(node)


def _sets_made_in(scope: ast.AST, *, nested: bool = True) -> Iterator[str]:
    """Names and fields (`self.name`) that are annotated as sets, or given one."""
    for node in ast.walk(scope) if nested else _own_nodes(scope):
        if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            yield ast.unparse(node.target)
            yield f"self.{ast.unparse(node.target)}"  # a field of a class
        elif isinstance(node, ast.arg) and node.annotation and _is_set_type(node.annotation):
            yield node.arg
        elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset()):
            yield from (ast.unparse(target) for target in node.targets)


def _is_set_type(annotation: ast.expr) -> bool:
    for part in ast.unparse(annotation).split(" | "):
        kind, _, element = part.partition("[")
        if kind in _SETS and element not in {"int]", ""}:
            return True
    return False


def _is_set(value: ast.expr, names: set[str] | frozenset[str]) -> bool:
    """Whether an expression is a set: by its form, or because it has one of these names."""
    if isinstance(value, ast.Set | ast.SetComp):
        return True
    if isinstance(value, ast.BinOp) and isinstance(
        value.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub
    ):
        return _is_set(value.left, names) or _is_set(value.right, names)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in {"frozenset", "set"}
    return ast.unparse(value) in names


def _walked_in(scope: ast.AST) -> Iterator[ast.expr]:
    """The iterated expressions, unless their order cannot matter."""
    orderless = {
        argument
        for node in _own_nodes(scope)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _ORDERLESS
        for argument in node.args
    }
    for node in _own_nodes(scope):
        if isinstance(node, ast.For | ast.AsyncFor):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            if node not in orderless:
                yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Starred | ast.YieldFrom):
            yield node.value
        elif isinstance(node, ast.Call) and node not in orderless:
            called = ast.unparse(node.func)
            if called in _WALKS or called.rpartition(".")[2] in _TAKES_MANY:
                yield from node.args
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
                yield node.func.value
