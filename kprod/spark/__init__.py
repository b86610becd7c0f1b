"""Write to Kafka from Spark: `df.write.format("kprod")` and `df.writeStream.format("kprod")`.

Nothing needs registering where kprod is installed: Spark finds the package `pyspark_kprod` by its
name. `register` is for sessions that do not look.
"""

from kprod.spark.minimum_pyspark import PYSPARK_MIN
from kprod.spark.reports import last_write, writes
from kprod.spark.sink import KprodFormat, register
from kprod.spark.task_messages import BadRow, OffsetSpan, WriteReport
from kprod.spark.traffic import Traffic

__all__ = [
    "PYSPARK_MIN",
    "BadRow",
    "KprodFormat",
    "OffsetSpan",
    "Traffic",
    "WriteReport",
    "last_write",
    "register",
    "writes",
]
