"""A pytest plugin for kafka-python's integration tests, which run without a server of theirs.

Its source distribution has `test/` without the modules that make it a package and start a server.
"""

import sys
from pathlib import Path
from types import ModuleType

SUITE = Path("test").absolute()


class ExternalService:
    """Stands for a broker that somebody else starts and stops."""

    def __init__(self, host: str, port: int) -> None:
        """Take the address of a running broker, which needs nothing."""


suite = ModuleType("test")  # the standard library has a package of this name
suite.__path__ = [str(SUITE)]
service = ModuleType("test.service")
service.ExternalService = ExternalService  # type: ignore[attr-defined]
service.SpawnedService = ExternalService  # type: ignore[attr-defined]
sys.modules.update({"test": suite, "test.service": service})
