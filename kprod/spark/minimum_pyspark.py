"""The oldest PySpark that will do; importing this module fails with an older one, and says why.

Thread-safety: immutable.
"""

import importlib.util

import pyspark

__all__ = ["PYSPARK_MIN"]

PYSPARK_MIN = "4.0"
"""The first with data sources of Python."""

if importlib.util.find_spec("pyspark.sql.datasource") is None:
    raise ImportError(
        f"kprod.spark needs PySpark {PYSPARK_MIN} or newer, since it is a data source of Python,"
        f" and this is PySpark {pyspark.__version__}. There, use a kprod.Producer in"
        " DataFrame.foreachPartition, or its send_arrow in mapInArrow"
    )
