"""A thread that wants the GIL, for tests of code that keeps or releases it."""

import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()

_NEVER_S = 1_000.0


@contextmanager
def rival() -> Generator[list[bool]]:
    """Start a thread that gets the GIL only where another thread releases it.

    CPython takes the GIL from no thread meanwhile, and the garbage collector, whose finalizers
    may release it, does not run.

    Yields:
        A list that has an item once the thread has had the GIL. The thread must have had it at the
        end.
    """
    begin, taken = threading.Lock(), list[bool]()

    def take() -> None:
        with begin:
            taken.append(True)

    thread = threading.Thread(target=take)
    before_s = sys.getswitchinterval()
    gc.collect()
    gc.disable()
    sys.setswitchinterval(_NEVER_S)
    try:
        begin.acquire()
        thread.start()  # it runs until it waits for the lock
        begin.release()
        yield taken
    finally:
        sys.setswitchinterval(before_s)
        gc.enable()
        thread.join()
