"""Other clients' settings: each is one of kprod's names, or is answered with what to do."""

from collections.abc import Callable, Mapping

import pytest

from kprod.config import ProducerConfig
from kprod.config.foreign import advice_for, renamed
from kprod.config.settings_table import rows
from kprod.errors import ConfigError
from tests.config.other_clients import (
    aiokafka_settings,
    kafka_python_settings,
    librdkafka_settings,
)

OWN = {
    spelling for name, setting, _ in rows(ProducerConfig) for spelling in setting.spellings(name)
}
SETTINGS_MIN = 25  # per client; fewer would mean that the client was asked wrongly


@pytest.mark.parametrize(
    "settings_of", [librdkafka_settings, kafka_python_settings, aiokafka_settings]
)
def test_every_setting_of_a_client_is_known_or_answered(
    settings_of: Callable[[], Mapping[str, str]],
) -> None:
    """Whatever an application brings along, the error says more than that it is unknown."""
    settings = settings_of()
    assert len(settings) > SETTINGS_MIN
    unanswered = [name for name in settings if name not in OWN and advice_for(name) is None]
    assert unanswered == []


def test_no_name_of_kprods_own_has_advice() -> None:
    """A name that became kprod's leaves the table: it is accepted."""
    assert sorted(set(renamed()) & OWN) == []
    assert sorted(set(renamed().values()) - OWN) == []


@pytest.mark.parametrize("foreign", sorted(renamed()))
@pytest.mark.parametrize("separator", [".", "_"])
def test_another_name_is_rejected_and_kprods_is_given(foreign: str, separator: str) -> None:
    """In either spelling: a setting that does nothing would be worse than an error."""
    written = foreign.replace("_", separator)
    with pytest.raises(ConfigError, match=f"kprod's name is {renamed()[foreign]}$"):
        ProducerConfig.parse({"bootstrap_servers": "localhost:9092", written: "1"})


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("queue.buffering.max.kbytes", "buffer_memory, in bytes: times 1,024"),
        ("queue.buffering.max.messages", "bounds memory, not records"),
        ("compression.level", "compression_zstd_level"),
        ("test.mock.num.brokers", "EmbeddedCluster"),
        ("interceptor_list", "kprod's name is interceptors"),
        ("Debug", "logger 'kprod'"),
        ("auto.offset.reset", "belongs to a consumer"),
    ],
)
def test_a_setting_without_an_equal_is_explained(written: str, advice: str) -> None:
    """With the way that kprod has instead."""
    assert advice in (advice_for(written) or "")
