"""Describes the machine, so that a reader can judge a benchmark's figures.

Thread-safety: any thread; nothing is kept.
"""

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIBRARIES = ("kprod", "confluent-kafka", "aiokafka", "kafka-python", "kio", "numpy", "pyarrow")
"""Libraries whose versions are reported, if they are installed."""


def machine_facts() -> dict[str, Any]:
    """Collect the facts.

    Returns:
        Interpreter, processors, system, load average, versions of the installed packages.
    """
    cpuinfo = Path("/proc/cpuinfo")
    names = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in names if line.startswith("model name")]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpu_count": os.cpu_count(),
        "cpu": models[0] if models else platform.processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {name: version for name in LIBRARIES if (version := _version(name))},
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def facts_line(facts: Mapping[str, Any]) -> str:
    """Put the facts on one line.

    Args:
        facts: The result of `machine_facts`.

    Returns:
        A line for below a table.
    """
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['python']}, {facts['system']}, {facts['cpu_count']} × {facts['cpu']}, "
        f"load {facts['load_average']}; {versions}"
    )
