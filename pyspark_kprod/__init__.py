"""How Spark finds kprod by itself: it imports every top-level package named `pyspark_…`.

One import that fails would hide every other data source too. So this never raises: where PySpark
is too old, or something is missing, there is no `DefaultSource` here, and Spark says that it knows
no format of that name.

Source: PySpark 4.1, pyspark.sql.worker.lookup_data_sources.
"""

import contextlib

with contextlib.suppress(Exception):  # noqa: RUF067 - looked for here
    from kprod.spark.sink import KprodFormat as DefaultSource

    __all__ = ["DefaultSource"]
