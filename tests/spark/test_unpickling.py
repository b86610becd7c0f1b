"""A writer's pickle, where kprod is installed and where it is not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType

from kprod.spark.sink import BatchWriter, KprodFormat, StreamWriter

OPTIONS = {"bootstrap.servers": "env:KPROD_NOT_SET", "topic": "save"}
SCHEMA = StructType([StructField("value", BinaryType())])
PICKLES: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


def test_writers_travel() -> None:
    """Each kind, with all that it has."""
    source = KprodFormat(OPTIONS)
    batch = source.writer(SCHEMA, overwrite=False)
    stream = source.streamWriter(SCHEMA, overwrite=False)
    for writer in (batch, stream):
        loaded = PICKLES.loads(PICKLES.dumps(writer))
        assert type(loaded) is type(writer)
        assert vars(loaded).keys() == vars(writer).keys()
    assert isinstance(batch, BatchWriter)
    assert isinstance(stream, StreamWriter)


def test_without_kprod_the_pickle_says_so(tmp_path: Path) -> None:
    """The function that loads it needs nothing but cloudpickle, which is of PySpark."""
    pickled = tmp_path / "writer"
    pickled.write_bytes(PICKLES.dumps(KprodFormat(OPTIONS).writer(SCHEMA, overwrite=False)))
    (tmp_path / "kprod.py").write_text("raise ModuleNotFoundError(name='kprod')\n", "utf-8")
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(pickled)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert f"kprod is not installed for this worker: {sys.executable}, Python" in run.stderr
    assert "set PYSPARK_PYTHON to an interpreter that has it" in run.stderr
