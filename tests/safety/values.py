"""Arguments for every parameter of kprod's compiled code, made from its annotation.

The first value of a parameter is valid; the others are what an application may give by mistake:
None, nothing, far too much, another type, an object that lies about itself, and objects of our own
types whose `__init__` never ran.
"""

import collections
import functools
import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

from kprod._core.clock import ManualClock
from tests.safety import recipes
from tests.safety.surface import Parameter, extension_types

INT64_MAX = (1 << 63) - 1
TEXT_LENGTH = 100_000


class Liar:
    """Says one thing of itself and then another."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: object) -> object:
        return self

    def __index__(self) -> int:
        return 1 << 62

    def __iter__(self) -> "Liar":
        return self

    def __next__(self) -> object:
        raise ValueError("no more of this")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    __hash__ = None  # type: ignore[assignment]


def raising(*_: object, **__: object) -> object:
    """Fail, whatever it is called with."""
    raise ValueError("raised by a callback")


def _quiet(*_: object, **__: object) -> None:
    """Do nothing, whatever it is called with."""


def _descriptors() -> list[Callable[[], Any]]:
    return [lambda: os.eventfd(0), lambda: -1, lambda: 1 << 20, lambda: 1 << 40, lambda: None]


def _same(value: object) -> object:
    return value


def _in_a_list(make: Callable[[], Any]) -> list[Any]:
    return [make()]


def bare(kind: type) -> Any:
    """Make an object whose `__init__` never ran."""
    return kind.__new__(kind)  # type: ignore[call-overload]  # whatever the type


def _plain(*values: Any) -> list[Callable[[], Any]]:
    return [functools.partial(_same, value) for value in values]


_BY_ANNOTATION: dict[str, Callable[[], list[Callable[[], Any]]]] = {
    "int": lambda: _plain(1, 0, -1, 999, 1 << 31, INT64_MAX, 1 << 63, None, "1", 1.5, Liar()),
    "bool": lambda: _plain(True, False, None, "x"),
    "float": lambda: _plain(0.0, float("nan"), 1e300, None, "x"),
    "str": lambda: _plain("orders", "", "x" * TEXT_LENGTH, "\ud800", None, 5, b"orders"),
    "bytes": lambda: [
        *_plain(b"ab", b"", b"\x00" * 100, b"\xff" * 100, None, 5, "x"),
        lambda: bytearray(b"ab"),
        lambda: memoryview(b"abcd")[::2],
    ],
    "dict": lambda: [
        dict,
        lambda: {"value": "value"},
        lambda: {"orders": object(), None: None},
        *_plain(None, 5, Liar()),
    ],
    "list": lambda: [
        list,
        lambda: [None],
        lambda: [object(), 1, "x"],
        *_plain((), None, 5, Liar()),
        lambda: [[]],
        lambda: [()],
        lambda: [1 << 70],
        lambda: iter([(0, None)]),
        lambda: [(0, None), (1, 5)],
        lambda: collections.deque([None]),
    ],
    "callable": lambda: _plain(_quiet, raising, None, 5),
    "object": lambda: [*_plain(None, 0, b"x", "x", 1 << 70, Liar(), int, _quiet), list, object],
    "socket": lambda: [lambda: socket.socketpair()[0], *_plain(None, 5)],
    "descriptor": _descriptors,
    "clock": lambda: [ManualClock, *_plain(None, 5), lambda: ManualClock.__new__(ManualClock)],
}
_GROUPS = {
    "bytes": "Buffer bytes bytearray memoryview BytesLike _Buffer _BytesLike",
    "dict": "dict Mapping MutableMapping",
    "list": "list Sequence Iterable Iterator deque tuple set frozenset",
    "callable": "Callable OnDelivery _Decompress _Compress",
    "clock": "Clock",
    "socket": "socket",
    "int": "int SupportsIndex Acks ApiKey Codec",
}
_GROUP_OF = {word: group for group, words in _GROUPS.items() for word in words.split()}
_GROUP_OF |= {name: name for name in ("bool", "float", "str", "object")}


def makers_of(parameter: Parameter) -> list[Callable[[], Any]]:
    """Factories of a parameter's values, the valid one first."""
    if parameter.name in {"descriptor", "fd"}:
        return _descriptors()
    outer = re.sub(r"\[.*\]", "", parameter.annotation.replace('"', ""))
    inner = re.findall(r"\w+", parameter.annotation)
    found: list[Callable[[], Any]] = []
    for word in re.findall(r"[\w.]+", outer):
        found += _of_word(word.rpartition(".")[2])
    if outer.split(" |")[0] in {"list", "Sequence", "Iterable"}:
        # A list of what it is said to be a list of, before all other lists.
        for word in inner[1:]:
            found[:0] = [functools.partial(_in_a_list, make) for make in _of_word(word)[:3]]
    if "timeout" in parameter.name:
        # None and negative numbers wait for ever.
        return [*_plain(0), *_plain(float("nan"), "x")]
    return found or _of_word("object")


def _of_word(word: str) -> list[Callable[[], Any]]:
    for name, kind in extension_types().items():
        if name.endswith(f".{word}"):
            return _of_type(kind)
    group = _GROUP_OF.get(word)
    return [] if group is None else _BY_ANNOTATION[group]()


def _of_type(kind: type) -> list[Callable[[], Any]]:
    return [
        lambda: recipes.made(kind),
        *_plain(None, 5),
        object,
        lambda: bare(kind),
    ]


def argument_lists(
    parameters: tuple[Parameter, ...],
) -> Iterator[tuple[str, Callable[[], tuple[list[Any], dict[str, Any]]]]]:
    """Name and maker of each list of arguments: all valid, one of them not, none, too many."""
    makers = [makers_of(each) for each in parameters]

    def given(chosen: list[Callable[[], Any]]) -> tuple[list[Any], dict[str, Any]]:
        positional, named = [], {}
        for each, make in zip(parameters, chosen, strict=True):
            try:
                value = make()
            except Exception:  # noqa: BLE001 - it cannot be made now
                value = None
            if each.is_keyword:
                named[each.name] = value
            else:
                positional.append(value)
        return positional, named

    valid = [choices[0] for choices in makers]
    yield "valid", lambda: given(valid)
    for index, choices in enumerate(makers):
        for number, make in enumerate(choices[1:], 1):
            chosen = [*valid[:index], make, *valid[index + 1 :]]
            yield f"{parameters[index].name}#{number}", functools.partial(given, chosen)
    if parameters:
        yield "nothing", lambda: ([], {})
        yield "all None", lambda: given([lambda: None] * len(parameters))
    yield "too many", lambda: ([None] * (len(parameters) + 1), {})
