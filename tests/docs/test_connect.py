"""The page on services: every snippet's settings are read with kprod's own."""

import ast
import re
from pathlib import Path

import pytest

from kprod.config import ProducerConfig

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "connect.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_each_service_has_a_snippet() -> None:
    """Those that the page is for."""
    titles = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    wanted = {"Confluent Cloud", "Amazon MSK", "Azure Event Hubs", "Aiven", "Redpanda", "Strimzi"}
    assert titles >= wanted
    assert len(SNIPPETS) >= len(wanted)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_is_read(snippet: str) -> None:
    """Its settings make a configuration with TLS, and compile as they stand."""
    tree = ast.parse(snippet)
    assigned = next(node for node in tree.body if isinstance(node, ast.Assign))
    config = ProducerConfig.parse(ast.literal_eval(assigned.value))
    assert config.security.uses_tls
    assert config.security.ssl_check_hostname
