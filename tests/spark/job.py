"""A Spark program of the tests: one session, some scenes, their findings as JSON.

    python -m tests.spark.job --out FILE --servers HOST:PORT [--master local[2]] SCENE…

Each scene is a function of the session and the program's arguments. It judges nothing: the test
that runs it does.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Generator
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.scenes import SCENES

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main() -> int:
    """Run the scenes that the command line names.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--master", default="local[2,3]")
    parser.add_argument("--remote", help="of a Connect server; `local` starts one")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--schemas", type=int, default=10)
    parser.add_argument("--jars", default="")
    parser.add_argument("--fault", default="")
    parser.add_argument("--input", default="")
    parser.add_argument("--option", action="append", default=[], help="of each write: NAME=VALUE")
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("scenes", nargs="+", choices=sorted(SCENES))
    given = parser.parse_args()
    found = {}
    with _session(given) as spark:
        for name in given.scenes:
            sys.stdout.write(f"scene {name}\n")
            found[name] = SCENES[name](spark, given)
    given.out.write_text(json.dumps(found), "utf-8")
    return 0


@contextlib.contextmanager
def _session(given: argparse.Namespace) -> Generator[SparkSession]:
    builder = SparkSession.builder.appName("kprod-tests")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(given.out.parent / "warehouse")}
    settings |= dict(each.split("=", 1) for each in given.conf)
    if given.jars:
        settings["spark.jars"] = given.jars
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder = builder.remote(given.remote) if given.remote else builder.master(given.master)
    spark = builder.getOrCreate()
    if not given.remote:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    raise SystemExit(main())
