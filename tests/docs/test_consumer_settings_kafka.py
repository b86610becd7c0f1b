"""The page of consumer settings: Java's own list of them."""

import re

from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools
from tools.generate_consumer_migrating import PEERS

CLASS = "org.apache.kafka.clients.consumer.ConsumerConfig"
ENTRY = re.compile(r'<a id="consumerconfigs_([^"]+)" href.*?Default:</th><td>(.*?)</td>', re.DOTALL)
OF_SECURITY = ("security", "ssl", "sasl")


def test_java_s_consumer_settings_are_whole_and_true(kafka_artifacts: Artifacts) -> None:
    """Each that the class prints, but those of security; each with its default there."""
    printed = KafkaTools(kafka_artifacts).run(CLASS)
    settings = {name: default.strip() for name, default in ENTRY.findall(printed)}
    stated = PEERS["Java"]
    assert {name for name in settings if not name.startswith(OF_SECURITY)} == set(stated)
    assert {name: settings[name] for name, default in stated.items() if default} == {
        name: default for name, default in stated.items() if default
    }
