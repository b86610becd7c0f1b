"""Less upkeep for PySpark's Python processes, which they do before and after each task.

It is the same for each task, plan and commit, however few the rows, so that it counts in small
writes and micro-batches.

Finders. PySpark's processes import it from an archive, and call `importlib.invalidate_caches`
before each task, plan and commit (4.1 and older). Before Python 3.13 that makes the finder of each
package inside the archive read the directory of the whole archive: 16 times 5 to 10 ms. A package
needs its finder only for further imports from it, and the next one makes a new finder. The finder
of the archive's top level remains, so that a changed archive is still noticed.

Collector. After each task the process runs a full garbage collection, which walks over every
object of PySpark, pyarrow and kprod: 15 to 50 ms. These live as long as the process. So once, after
its first work, a process exempts all objects that it has then from collections. They are freed as
ever when nothing refers to them; only cycles among those of that moment are not.

Thread-safety: one thread in each process.
Source: CPython 3.11, zipimport.zipimporter.invalidate_caches and gc.freeze; PySpark 4.1,
    worker_util and daemon.
"""

import gc
import os
import sys
from zipimport import zipimporter

__all__ = ["forget_package_finders", "lighten_upkeep"]

_DAEMON = "pyspark.daemon"  # forks the processes, and is their main module

_lightened: set[int] = set()
"""Has the id of this process once its objects are exempt; a forked child has another."""


def lighten_upkeep() -> None:
    """Save upkeep, if this is a process of PySpark; to be called after each work in it."""
    if not _is_pysparks():
        return
    forget_package_finders()
    if os.getpid() not in _lightened:
        _lightened.add(os.getpid())
        gc.freeze()


def _is_pysparks() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return _DAEMON in sys.modules or (spec is not None and spec.name == _DAEMON)


def forget_package_finders() -> None:
    """Remove the finders of packages inside archives from the interpreter's cache."""
    if sys.version_info >= (3, 13):
        return  # its finders read a directory when they next need it
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and finder.prefix:
            sys.path_importer_cache.pop(path, None)
