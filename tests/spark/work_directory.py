"""The directories of executors of `local-cluster`, in PySpark's own directory."""

import contextlib
import shutil
from collections.abc import Generator
from pathlib import Path

import pyspark


@contextlib.contextmanager
def clean_work() -> Generator[None]:
    """Delete what executors leave there meanwhile.

    Yields:
        Nothing.
    """
    directory = Path(pyspark.__file__).parent / "work"
    before = set(directory.glob("*"))
    try:
        yield
    finally:
        for left in set(directory.glob("*")) - before:
            shutil.rmtree(left, ignore_errors=True)
