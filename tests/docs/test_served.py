"""The table of what the embedded broker serves is what its handlers say."""

from kprod.broker.handlers.registry import HANDLERS
from tools import generate_served


def test_the_table_is_fresh() -> None:
    """`make docs` writes it."""
    assert generate_served.block() in generate_served.PAGE.read_text("utf-8")


def test_every_request_is_in_it() -> None:
    """Once, as served or as not served."""
    served, _, others = generate_served.block().partition("Not served: ")
    assert served.count("\n| ") == len(HANDLERS) + 1
    assert "| Produce |" in served
    assert "EndTxn" in others or "| EndTxn |" in served
