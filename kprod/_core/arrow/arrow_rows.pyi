from collections.abc import Mapping

from kprod._core.arrow.arrow_source import ArrowSource

class ArrowRows:
    def __init__(self, source: ArrowSource, names: Mapping[str, str | None]) -> None: ...
