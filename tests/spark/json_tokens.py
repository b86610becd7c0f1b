"""JSON texts of kprod and of Spark's `to_json`, compared."""

import json
from typing import Any

from kprod.broker import EmbeddedCluster


def assert_same_objects(cluster: EmbeddedCluster, found: dict[str, Any]) -> None:
    """Compare what the scene `json_schemas` wrote with what Spark's own function gave.

    Args:
        cluster: Cluster with the written records; each schema has its own topic.
        found: Findings of the scene.
    """
    assert found
    for seed, theirs in found.items():
        records = cluster.records(f"json-{seed}")[0]
        ours = [(record.value or b"").decode() for record in records]
        assert [_tokens(text) for text in ours] == [_tokens(text) for text in theirs["texts"]], seed
        # Byte for byte where no floating point number is in it.
        if not any(kind in theirs["types"] for kind in ("float", "double")):
            assert ours == theirs["texts"], seed


def _tokens(text: str) -> Any:
    """Return fields in their order, and floating point numbers by their value.

    Java before 19 writes some of them with more digits than are needed to read them back.
    """
    return json.loads(
        text,
        object_pairs_hook=lambda pairs: ("object", *pairs),
        parse_float=lambda number: ("float", float(number)),
    )
