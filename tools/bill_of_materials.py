"""The bill of materials that a wheel carries: the code inside of it that is not kprod's own.

PEP 770 gives it a place, `.dist-info/sboms/`. It lists what the wheel *contains*; what an installer
adds, the required packages, is in the wheel's metadata already. It has no time and no serial
number, so that the same sources give the same wheel.

Thread-safety: functions of their arguments.
Source: PEP 770; CycloneDX 1.6 JSON reference.
"""

import json
import tomllib
from pathlib import Path

FILE_NAME = "kprod.cdx.json"
"""Name of the file in the wheel's folder `sboms`."""

_LICENSE = "Apache-2.0"  # kprod's, and that of the code which Cython writes into a module


def bill_of_materials(tree: Path, version: str) -> str:
    """Write the bill of a wheel that is built from a source tree.

    Args:
        tree: Holds `pyproject.toml`, which pins the tools of the build.
        version: Version of kprod.

    Returns:
        CycloneDX 1.6 as JSON.
    """
    settings = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(pin.split("==") for pin in settings["build-system"]["requires"])
    kprod = _package("kprod", version, _LICENSE)
    support = _package("Cython", pins["Cython"], _LICENSE)
    support["description"] = "Support code that Cython writes into every compiled module."
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {
                "components": [
                    {"type": "application", "name": name, "version": pins[name]}
                    for name in sorted(pins)
                ]
            },
            "component": kprod,
        },
        "components": [support],
        "dependencies": [
            {"ref": kprod["bom-ref"], "dependsOn": [support["bom-ref"]]},
            {"ref": support["bom-ref"]},
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def _package(name: str, version: str, license_id: str) -> dict[str, object]:
    url = f"pkg:pypi/{name.lower()}@{version}"
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "licenses": [{"license": {"id": license_id}}],
        "purl": url,
    }
