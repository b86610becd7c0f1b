"""Files of a partition's directory: short and failing writes, descriptors, names."""

import errno
import os
from pathlib import Path

import pytest

from kprod.broker.log.file_names import base_offset_of, segment_file_name
from kprod.broker.log.file_pool import FilePool
from tests.broker.log.stores import made_store


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system may take less than it is given."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, part, at: real(fd, part[:3], at))
    pool = FilePool()
    file = made_store(tmp_path / "orders-0", pool).create("a.log")

    file.append(memoryview(b"0123456789"))

    pool.close()
    assert (tmp_path / "orders-0" / "a.log").read_bytes() == b"0123456789"


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk may stop a write in its middle: the part that was written is cut off again."""
    real = os.pwrite
    pool = FilePool()
    file = made_store(tmp_path / "orders-0", pool).create("a.log")
    file.append(memoryview(b"kept"))

    def write_three_then_fail(fd: int, part: memoryview, at: int) -> int:
        if at > len(b"kept"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, part[:3], at)

    monkeypatch.setattr(os, "pwrite", write_three_then_fail)
    with pytest.raises(OSError, match="No space left"):
        file.append(memoryview(b"0123456789"))

    pool.close()
    assert (tmp_path / "orders-0" / "a.log").read_bytes() == b"kept"
    assert file.size_bytes == len(b"kept")


def test_the_pool_closes_the_file_unused_for_longest(tmp_path: Path) -> None:
    """More files than descriptors: each is opened again when it is needed."""
    pool = FilePool(descriptors_max=2)
    store = made_store(tmp_path / "orders-0", pool)
    files = [store.create(f"{index}.log") for index in range(3)]

    for file, content in zip(files, (b"a", b"b", b"c"), strict=True):
        file.append(memoryview(content))

    assert len(pool) == 2
    assert [bytes(file.read(0, 9)[0]) for file in files] == [b"a", b"b", b"c"]
    pool.close()
    assert len(pool) == 0


def test_a_file_made_again_is_not_the_removed_one(tmp_path: Path) -> None:
    """A descriptor of a removed file must not be used for its successor."""
    pool = FilePool()
    store = made_store(tmp_path / "orders-0", pool)
    store.create("a.log").append(memoryview(b"old"))
    store.remove("a.log")
    store.remove("a.log")  # it is gone already

    store.create("a.log").append(memoryview(b"new!"))

    assert store.names() == ["a.log"]
    assert bytes(store.open("a.log").read(0, 9)[0]) == b"new!"
    pool.close()


def test_names_have_the_base_offset_in_twenty_digits() -> None:
    """Both ways; another file's name has none."""
    name = segment_file_name(368_769, ".log")

    assert name == "00000000000000368769.log"
    assert base_offset_of(name) == 368_769
    others = ("1.log", name + ".deleted", name.replace(".log", ".index"), "\u0660" * 20 + ".log")
    assert [base_offset_of(other) for other in others] == [None] * 4
