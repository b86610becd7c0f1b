"""Settings of an embedded cluster: by name, from a table, and errors in them."""

from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.errors import ConfigError
from tools import generate_embedded_settings


def test_settings_are_given_by_name() -> None:
    """A topic that a client asks for has as many partitions as the setting says."""
    with EmbeddedCluster(1, default_partitions=7) as cluster:
        cluster.create_topic("orders")
        assert len(cluster.records("orders")) == 7


def test_settings_by_name_come_before_the_table() -> None:
    """Other settings keep the table's values, and the table itself is unchanged."""
    table = EmbeddedConfig(default_partitions=2, topics_max=5)
    made = EmbeddedConfig.of(table, {"default_partitions": 3})
    assert (made.default_partitions, made.topics_max) == (3, 5)
    assert table.default_partitions == 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"default_partition": 3}, "unknown setting 'default_partition'.*mean default_partitions?"),
        ({"linger_ms": 3}, "unknown setting 'linger_ms' of an embedded cluster$"),
        ({"default_partitions": 0}, "default_partitions=0 is not between 1 and 100000"),
        ({"default_partitions": "3"}, "default_partitions='3' is not a whole number"),
        ({"message_timestamp_type": "now"}, "message_timestamp_type='now' is not one of"),
    ],
)
def test_a_wrong_setting_is_rejected(settings: dict[str, Any], text: str) -> None:
    """The error has the name, the value, and the intended or allowed values."""
    with pytest.raises(ConfigError, match=text):
        EmbeddedCluster(1, **settings)


@pytest.mark.checkout
def test_the_typed_settings_are_those_of_the_table() -> None:
    """The generated module is up to date (`make docs` writes it)."""
    module = generate_embedded_settings.MODULE.read_text(encoding="utf-8")
    assert module == generate_embedded_settings.module()


def test_the_generator_reads_every_text() -> None:
    """Over several lines, too."""
    text = "Settings.\n\nAttributes:\n    a: One\n        line.\n    b: Two: lines.\n\nMore."
    assert generate_embedded_settings.attribute_texts(text) == {
        "a": "One line.",
        "b": "Two: lines.",
    }
