"""One of two directories is on a volume of a few MiB, which fills up (ENOSPC).

A process of its own mounts the volume, in a name space that ends with it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOUNTING = ["unshare", "--user", "--map-root-user", "--mount"]
LIMIT_S = 120

SCRIPT = r"""
import logging
import os
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import TIMESTAMP_MS, World
from tests.oracle.record_v2 import encode_batch

small, large = directories = sys.argv[2:]
CONTENT = encode_batch([(TIMESTAMP_MS, b"key", os.urandom(60_000), ())])
messages = []
logging.getLogger("kprod.broker").addFilter(lambda it: messages.append(it.getMessage()) or True)


def opened():
    return World(brokers=1, topics={"orders": 2}, data_dirs=directories)


def mount(*options):
    subprocess.run(["mount", "-t", "tmpfs", *options, "small", small], check=True)


def produced(world, index):
    answer = world.client().produced(CONTENT, topic="orders", partition=index)
    return answer["error_code"], answer["base_offset"]


mount("-o", "size=2m")
world = opened()
acknowledged = 0
while (answer := produced(world, 0))[0] == ErrorCode.NONE:
    assert answer[1] == acknowledged
    acknowledged += 1
    assert produced(world, 1) == (ErrorCode.NONE, acknowledged - 1)
assert 10 < acknowledged < 40, acknowledged
assert answer[0] == ErrorCode.KAFKA_STORAGE_ERROR, answer
assert any("No space left on device" in it for it in messages), messages
for _ in range(40):  # as much again, in the directory that has room
    assert produced(world, 1)[0] == ErrorCode.NONE
assert produced(world, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR
assert world.cluster.metrics()["LogManager"]["OfflineLogDirectoryCount"] == 1
world.cluster.close()

world = opened()  # which finds the volume as full as before
assert world.cluster.describe("orders", 0).log_end_offset == acknowledged
assert produced(world, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR
world.cluster.close()

mount("-o", "remount,size=8m")
world = opened()
assert produced(world, 0) == (ErrorCode.NONE, acknowledged)
offsets = [it.offset for it in world.cluster.records("orders")[0]]
assert offsets == list(range(acknowledged + 1)), offsets
assert len(world.cluster.records("orders")[1]) == acknowledged + 40
world.cluster.close()
print("done")
"""


@pytest.fixture
def mounting() -> list[str]:
    """The beginning of a command that may mount volumes."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no command to mount a volume of its own")
    tried = subprocess.run([*MOUNTING, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no volume may be mounted here: {tried.stderr.strip()}")
    return MOUNTING


@pytest.mark.slow
def test_a_full_volume_takes_its_directory_offline_alone(
    tmp_path: Path, mounting: list[str]
) -> None:
    """The other is served; all acknowledged records are there, and appends once there is room."""
    paths = [tmp_path / "small", tmp_path / "large"]
    for path in paths:
        path.mkdir()
    run = subprocess.run(
        [*mounting, sys.executable, "-c", SCRIPT, str(ROOT), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (run.returncode, run.stdout.strip()) == (0, "done"), run.stderr
