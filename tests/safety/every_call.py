"""Call everything that Python can reach of one compiled type or module, and see that it survives.

    python -m tests.safety.every_call LOG [NAME ...]

Each type is tried in a forked child of its own: made by `__new__` alone, made as kprod makes it,
closed, initialised twice, and with each public attribute replaced. Every case is written to the
log before it begins, so that the last line names the one that ended the process.
"""

import contextlib
import copy
import functools
import gc
import operator
import os
import pickle
import resource
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tests.safety import recipes
from tests.safety.surface import (
    Signature,
    compiled_modules,
    extension_types,
    functions_of,
    signatures_of,
)
from tests.safety.values import Liar, argument_lists, bare

MEMORY_BYTES = 4 << 30  # limit of a child, which keeps its producers
CRASHES_MAX = 30
CALL_S = 0.5  # a call that waits that long waits for ever here
CLOSING = ("close", "seal", "abandon", "release", "cancel", "clear", "__exit__")
# `start` is the sender's thread, which would turn here without a pause for ever.
UNTRIED = {
    "start",
    "__class__",
    "__new__",
    "__init_subclass__",
    "__subclasshook__",
    "__getattribute__",
}


def _entered(it: Any) -> object:
    with it:
        return it


PROTOCOLS: dict[str, Callable[[Any], object]] = {
    "repr": repr,
    "str": str,
    "hash": hash,
    "bool": bool,
    "len": len,
    "iter": lambda it: [each for each, _ in zip(it, range(5), strict=False)],
    "next": next,
    "call": lambda it: it(),
    "equal": lambda it: (it == None, it == it, it == 5, it != Liar),  # noqa: E711, PLR0124
    "less": lambda it: it < 5,
    "add": lambda it: it + 5,
    "index": operator.index,
    "item": operator.itemgetter(0),
    "slice": operator.itemgetter(slice(None)),
    "buffer": lambda it: bytes(memoryview(it)),
    "contains": lambda it: 5 in it,
    "with": _entered,
    "await": lambda it: next(iter(it.__await__())),
    "weak": weakref.ref,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "reduce": lambda it: it.__reduce_ex__(4),
    "referents": gc.get_referents,
    "size": sys.getsizeof,
    "class": lambda it: setattr(it, "__class__", Liar),
    "attribute": lambda it: setattr(it, "an_attribute_of_nobody", 1),
}


class _Waits(BaseException):
    """The call waits for what nobody will do."""


def _stop(*_: object) -> NoReturn:
    raise _Waits


class _Log:
    """Says which case comes next; reopened each time, since a case may close any descriptor."""

    def __init__(self, path: Path, skipped: frozenset[str] = frozenset()) -> None:
        self._path = path
        self._skipped = skipped
        self.count = 0
        self.is_tired = False  # the object of the latest case may have taken all memory

    def write(self, line: str) -> None:
        """Add a line."""
        at = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(at, f"{line}\n".encode("utf-8", "backslashreplace"))
        os.close(at)

    def run(self, label: str, case: Callable[..., object], *given: object) -> Any:
        """Take one case: whatever it raises is a response."""
        self.count += 1
        found = None
        if label in self._skipped:
            return found
        self.write(label)
        # The alarm may come in the last line of a block, so there is another block around it.
        with contextlib.suppress(_Waits):
            try:
                signal.setitimer(signal.ITIMER_REAL, CALL_S)
                found = case(*given)
            except MemoryError:
                self.is_tired = True
            except BaseException:  # noqa: BLE001, S110 - an error is as good as a result
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return found


def _derived(kind: type) -> object:
    class Forgetful(kind):  # type: ignore[misc]  # whatever the type
        def __init__(self) -> None:
            pass

    return Forgetful()


def _closed(kind: type) -> object:
    it = recipes.made(kind)
    for name in CLOSING:
        for arguments in ((), (None, None, None)):
            with contextlib.suppress(Exception):
                getattr(it, name)(*arguments)
    return it


def _made_twice(kind: type) -> object:
    it = recipes.made(kind)
    for _, arguments in argument_lists(_of(kind, "__init__").parameters):
        positional, named = arguments()
        with contextlib.suppress(Exception):
            type(it).__init__(it, *positional, **named)
    return it


def _used_up(kind: type) -> object:
    it = recipes.made(kind)
    with contextlib.suppress(Exception):
        for _ in zip(it, range(1_000), strict=False):
            pass
    return it


STATES: dict[str, Callable[[type], Any]] = {
    "new": bare,
    "derived": _derived,
    "made": recipes.made,
    "closed": _closed,
    "twice": _made_twice,
    "used up": _used_up,
}
"""How an object of a type may have come about."""


def _of(kind: type, name: str) -> Signature:
    return signatures_of(kind).get(name, Signature(name, ()))


def _names(it: object) -> list[str]:
    """The attributes of an object's own type, without those of `object`."""
    return [name for name in dir(type(it)) if name not in UNTRIED and name not in dir(object)]


def _cases_of_type(kind: type, log: _Log) -> None:
    for state, make_of in STATES.items():
        make = functools.partial(make_of, kind)
        label = f"{kind.__module__}.{kind.__name__} {state}"
        it = log.run(f"{label}: made", make)
        if it is None:
            continue
        for name, act in PROTOCOLS.items():
            log.run(f"{label}: {name}", act, it)
        for name in _names(it):
            log.run(f"{label}: .{name}", getattr, it, name)
            _call(kind, name, make, f"{label}: .{name}", log)
        for name in ["__init__", *_names(it)]:
            log.run(f"{label}: in a row .{name}", _plain_call, it, name)
        del it
        log.run(f"{label}: collect", gc.collect)
    for name, value in _replaced(kind, log):
        it = log.run(f"{kind.__name__} made", recipes.made, kind)
        with contextlib.suppress(Exception):
            setattr(it, name, value)
            for asked in _names(it):
                label = f"{kind.__module__}.{kind.__name__} with {name} = {value!r:.30}: .{asked}"
                log.run(label, _plain_call, it, asked)
        del it


def _replaced(kind: type, log: _Log) -> Iterator[tuple[str, object]]:
    """Each public attribute that can be set or deleted, and the values put there."""
    it = log.run(f"{kind.__name__} to be changed", recipes.made, kind)
    for name in _names(it) if it is not None else ():
        # Attributes of a base class are tried with that class.
        if name not in vars(kind) or callable(vars(kind)[name]) or name.startswith("__"):
            continue
        log.run(f"{kind.__name__} del .{name}", _deleted, kind, name)
        for value in (None, 1 << 70, INT_OUT, -1, [], {}, "x", object(), Liar()):
            try:
                setattr(it, name, value)
            except Exception:  # noqa: BLE001, S112 - rejected
                continue
            yield name, value


INT_OUT = (1 << 31) - 1


def _plain_call(it: Any, name: str) -> object:
    """Call a method with valid arguments, or read an attribute."""
    found = getattr(it, name)
    if not callable(found):
        return found
    _, arguments = next(argument_lists(_of(type(it), name).parameters))
    positional, named = arguments()
    return found(*positional, **named)


def _call(kind: type, name: str, make: Callable[[], Any], label: str, log: _Log) -> None:
    signature = _of(kind, name)
    if signature.is_property or not callable(getattr(kind, name, None)):
        return
    it = make()
    for which, arguments in argument_lists(signature.parameters):
        if log.is_tired:
            log.is_tired = False
            it = make()
        log.run(f"{label} {which}", _apply_to, it, name, arguments)


def _deleted(kind: type, name: str) -> None:
    delattr(recipes.made(kind), name)


def _apply_to(it: object, name: str, arguments: Callable[[], Any]) -> object:
    return _apply(getattr(it, name), arguments)


def _apply(function: Callable[..., object], arguments: Callable[[], Any]) -> object:
    positional, named = arguments()
    return function(*positional, **named)


def _cases_of_module(name: str, log: _Log) -> None:
    module = compiled_modules()[name]
    for signature in functions_of(name).values():
        for which, arguments in argument_lists(signature.parameters):
            label = f"{name}.{signature.name} {which}"
            log.run(label, _apply_to, module, signature.name, arguments)
    for kind in extension_types().values():
        if kind.__module__ == name:
            for which, arguments in argument_lists(_of(kind, "__init__").parameters):
                log.run(f"{name}.{kind.__name__}() {which}", _apply, kind, arguments)


def _child(name: str, log: _Log) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _stop)
    if name in extension_types():
        _cases_of_type(extension_types()[name], log)
    else:
        _cases_of_module(name, log)
    log.write(f"all {log.count} cases of {name}")
    os._exit(0)


def _crashes(name: str, log_path: Path) -> list[str]:
    """Try one target, again without the case that ended it, until it comes to its end."""
    crashed: list[str] = []
    while len(crashed) < CRASHES_MAX:
        log_path.unlink(missing_ok=True)
        log = _Log(log_path, frozenset(crashed))
        child = os.fork()
        if child == 0:
            try:
                _child(name, log)
            except BaseException as error:  # noqa: BLE001 - told in the log
                log.write(f"broken: {error!r}")
            os._exit(3)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        crashed.append(log_path.read_text("utf-8").splitlines()[-1])
        sys.stdout.write(f"{name}: {os.waitstatus_to_exitcode(status)}: {crashed[-1]}\n")
        sys.stdout.flush()
    return crashed


def main() -> int:
    """Run every target named, all without names; print what ended one of them too early."""
    directory, names = Path(sys.argv[1]), sys.argv[2:]
    crashed = [_crashes(name, directory / name) for name in names or targets()]
    return int(any(crashed))


def targets() -> list[str]:
    """The names of all that is tried: extension types, and modules for their functions."""
    return [*extension_types(), *compiled_modules()]


if __name__ == "__main__":
    sys.exit(main())
