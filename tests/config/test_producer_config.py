"""The table of settings: spellings, conversions, bounds, and the slices made of it."""

from pathlib import Path

import pytest

from kprod.config import Address, NetworkSettings, ProducerConfig
from kprod.config.settings_table import MISSING, rows
from kprod.errors import ConfigError
from kprod.model import Acks, Codec
from tools import generate_configuration, generate_settings

SERVERS = {"bootstrap_servers": "localhost:9092"}


def parse(**settings: object) -> ProducerConfig:
    """Return a configuration with one broker and some settings more."""
    return ProducerConfig.parse({**SERVERS, **settings})


def rejection(settings: dict[str, object]) -> str:
    """Return the text of the error that settings meet."""
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse({**SERVERS, **settings})
    return str(caught.value)


def test_safe_defaults() -> None:
    """Without a word about it, a producer is idempotent, waits for all replicas, lingers 5 ms."""
    config = parse()
    assert config.acks is Acks.ALL
    assert config.enable_idempotence
    assert config.max_in_flight_requests_per_connection == 5
    assert config.linger_ms == 5
    assert config.delivery_timeout_ms == 120_000
    assert config.request_timeout_ms == 30_000
    assert config.batch_size == 1_000_000
    assert config.buffer_memory == 64 * 1024 * 1024


def test_every_default_is_acceptable_to_its_own_row() -> None:
    """No default is out of its own bounds: each converts to itself."""
    for name, setting, default in rows(ProducerConfig):
        if default is not MISSING:
            assert setting.kind.convert(default) == default, name


def test_both_spellings_are_one_setting() -> None:
    """The dotted name and the underscored one reach the same field."""
    by_dots = ProducerConfig.parse({"bootstrap.servers": "localhost:9092", "linger.ms": 7})
    assert by_dots == parse(linger_ms=7)


def test_every_kafka_name_is_accepted_as_it_is_and_underscored() -> None:
    """Each setting of Kafka's is found by its dotted name and by that with underscores."""
    for name, setting, default in rows(ProducerConfig):
        if setting.kafka_name is None or default is MISSING:
            continue
        for spelling in (setting.kafka_name, setting.kafka_name.replace(".", "_")):
            config = ProducerConfig.parse({**SERVERS, spelling: default})
            assert getattr(config, name) == default


def test_two_spellings_with_one_value_are_accepted() -> None:
    """The same thing said twice is no contradiction, even as text and number."""
    assert parse(linger_ms=3, **{"linger.ms": "3"}).linger_ms == 3


def test_two_spellings_with_different_values_are_rejected() -> None:
    """If two contradict each other, the error names both."""
    text = rejection({"linger_ms": 3, "linger.ms": 4})
    assert "linger_ms and linger.ms" in text
    assert "3 and 4" in text


@pytest.mark.parametrize(
    ("written", "expected"), [("7", 7), (" 7 ", 7), ("+7", 7), (7, 7), ("0", 0)]
)
def test_numbers_may_be_texts(written: object, expected: int) -> None:
    """A properties file has only texts."""
    assert parse(linger_ms=written).linger_ms == expected


@pytest.mark.parametrize(
    "written", [True, 5.0, "5.0", "0x5", "", "-", "\u0665", None, b"5", "9" * 5_000, [5]]
)
def test_a_value_that_is_no_whole_number_is_rejected(written: object) -> None:
    """A bool, a fraction, another script's digits or a text of 5,000 digits is no number here."""
    text = rejection({"linger_ms": written})
    assert text.startswith("linger_ms (ms) must be a whole number, not ")
    assert len(text) < 200


def test_bounds_are_named_with_their_reason() -> None:
    """An error for a bound says the bound, the value and why the bound is there."""
    text = rejection({"max_in_flight_requests_per_connection": 6})
    assert "must be from 1 to 5, not 6" in text
    assert "last five batches" in text


@pytest.mark.parametrize("written", ["true", "TRUE", True])
def test_flags_may_be_texts(written: object) -> None:
    """A properties file has "true" for True."""
    assert parse(partitioner_ignore_keys=written).partitioner_ignore_keys


@pytest.mark.parametrize("written", [1, "yes", None, ""])
def test_a_value_that_is_no_flag_is_rejected(written: object) -> None:
    """Python's notion of truth does not apply: 1 and "yes" may mean anything."""
    assert "must be True or False" in rejection({"partitioner_ignore_keys": written})


@pytest.mark.parametrize(
    ("written", "expected"),
    [("all", Acks.ALL), (-1, Acks.ALL), ("-1", Acks.ALL), (Acks.ALL, Acks.ALL)],
)
def test_acks_by_word_and_number(written: object, expected: Acks) -> None:
    """All replicas are "all" or −1, as in every Kafka client."""
    assert parse(acks=written).acks is expected


@pytest.mark.parametrize("written", [2, "some", None, True, 1.0])
def test_acks_of_another_kind_are_rejected(written: object) -> None:
    """There are three values and no more."""
    assert "must be 'all' (or -1), 1 or 0" in rejection({"acks": written})


@pytest.mark.parametrize(
    ("written", "expected"),
    [("zstd", Codec.ZSTD), ("LZ4", Codec.LZ4), (None, Codec.NONE), (Codec.GZIP, Codec.GZIP)],
)
def test_codec_by_name(written: object, expected: Codec) -> None:
    """A codec is named in any case; None, as other clients have it, is none."""
    assert parse(compression_type=written).compression_type is expected


def test_unknown_codec_is_rejected() -> None:
    """The error lists the codecs there are."""
    assert "none, gzip, snappy, lz4, zstd" in rejection({"compression_type": "brotli"})


@pytest.mark.parametrize("level", [0, 10, -2])
def test_gzip_level_out_of_range_is_rejected(level: int) -> None:
    """Zlib has levels 1 to 9 and −1."""
    assert "from 1 to 9" in rejection({"compression_gzip_level": level})


def test_level_of_the_chosen_codec() -> None:
    """Each codec has a level of its own, and the slice gives the one that counts."""
    settings = {"compression_gzip_level": 4, "compression_zstd_level": -5}
    levels = {
        name: parse(compression_type=name, **settings).compression_settings().level
        for name in ("none", "gzip", "snappy", "lz4", "zstd")
    }
    assert levels == {"none": None, "gzip": 4, "snappy": None, "lz4": 9, "zstd": -5}


@pytest.mark.parametrize("name", ["value_serializer", "key_serializer", "partitioner"])
def test_nothing_is_imported_by_name(name: str) -> None:
    """A text that looks like a path to a function is rejected, never looked up."""
    assert "imports nothing by name" in rejection({name: "os.system"})


def test_callables_are_taken_as_they_are() -> None:
    """A serializer is any callable."""
    assert parse(value_serializer=str.encode).value_serializer is str.encode


@pytest.mark.parametrize("text", ["${file:/etc/passwd}", "${env:HOME}", "$HOME", "%(home)s"])
def test_nothing_is_looked_up_in_files_or_the_environment(text: str) -> None:
    """Text that looks like a reference is not resolved (CVE-2024-31141)."""
    assert parse(client_id=text).client_id == text


@pytest.mark.parametrize("client_id", ["a\nb", "a\x1b[0m", "a\u2028b", "x" * 256, "é" * 128, 5])
def test_client_id_that_could_forge_a_log_line_is_rejected(client_id: object) -> None:
    """Brokers write the client id to their logs; the error shows it escaped and short."""
    text = rejection({"client_id": client_id})
    assert text.startswith("client_id must be ")
    assert text.isprintable()
    assert len(text) < 200


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("linger_mss", "linger_ms"),
        ("linger.mss", "linger.ms"),
        ("Linger.Ms", "linger.ms"),
        ("bufer_memory", "buffer_memory"),
        ("max_inflight_requests", "max_in_flight_requests_per_connection"),
        ("compression", "compression_type"),
    ],
)
def test_unknown_setting_names_the_nearest(written: str, nearest: str) -> None:
    """A slip of the pen meets the name that was meant, in the same spelling."""
    assert rejection({written: 1}).endswith(f"did you mean {nearest}?")


def test_unknown_setting_with_no_neighbour() -> None:
    """A name that is like none gets no guess, and a very long one is cut."""
    assert rejection({"zzz": 1}) == "unknown setting 'zzz'"
    assert len(rejection({"x" * 100_000: 1})) < 150
    assert "is a text" in str(rejection({5: 1}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("queue.buffering.max.ms", "kprod's name is linger_ms"),
        ("message.timeout.ms", "kprod's name is delivery_timeout_ms"),
        ("metadata.broker.list", "kprod's name is bootstrap_servers"),
        ("max_batch_size", "kprod's name is batch_size"),
        ("api_version", "versions are agreed with each broker"),
        ("sasl_plain_password", "is of no use with security_protocol=PLAINTEXT"),
        ("group.id", "belongs to a consumer"),
    ],
)
def test_other_clients_names_are_explained(written: str, advice: str) -> None:
    """Someone who comes from another client is told kprod's name, or why there is none."""
    assert advice in rejection({written: "x"})


def test_value_of_an_unknown_setting_is_not_shown() -> None:
    """It may be a password under a misspelled name."""
    assert "hunter2" not in rejection({"sasl_plain_pasword": "hunter2"})
    assert "hunter2" not in rejection({"zzz": "hunter2"})


def test_bootstrap_servers_are_required() -> None:
    """There is no default broker."""
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ProducerConfig.parse({})


def test_slices_carry_the_values_of_the_table() -> None:
    """Each slice is the table's values under the table's names."""
    config = parse(reconnect_backoff_ms=70, client_id="me", metadata_max_age_ms=9)
    network = config.network_settings()
    assert isinstance(network, NetworkSettings)
    assert (network.reconnect_backoff_ms, network.client_id) == (70, "me")
    assert config.metadata_settings().metadata_max_age_ms == 9
    assert config.metadata_settings().bootstrap_servers == (Address("localhost", 9092),)
    slices = (
        config.accumulator_settings(),
        config.sender_settings(),
        config.partitioner_settings(),
        config.compression_settings(),
        network,
    )
    for part in slices:
        for name in part._fields:
            assert getattr(part, name) == getattr(config, name)


def test_every_setting_but_callables_is_in_a_slice() -> None:
    """A setting that no component takes would be a setting that nothing uses."""
    config = parse()
    taken = {
        name
        for part in (
            config.accumulator_settings(),
            config.sender_settings(),
            config.partitioner_settings(),
            config.compression_settings(),
            config.network_settings(),
            config.metadata_settings(),
        )
        for name in part._fields
    }
    every = {name for name, _, _ in rows(ProducerConfig)}
    assert every - taken == {"interceptors", "key_serializer", "value_serializer"}


@pytest.mark.checkout
def test_types_of_settings_are_fresh() -> None:
    """The typed dictionary is what the table gives; `make docs` writes it."""
    module = Path(generate_settings.MODULE).read_text(encoding="utf-8")
    assert module == generate_settings.module()


def test_configuration_page_is_fresh() -> None:
    """The page in docs is what the table gives; `make docs` writes it."""
    page = Path(generate_configuration.PAGE).read_text(encoding="utf-8")
    assert page == generate_configuration.page()


@pytest.mark.checkout
def test_the_consumer_s_pages_are_generated_too() -> None:
    """As the producer's."""
    page = Path(generate_configuration.CONSUMER_PAGE).read_text(encoding="utf-8")
    assert page == generate_configuration.consumer_page()
    module = Path(generate_settings.CONSUMER_MODULE).read_text(encoding="utf-8")
    assert module == generate_settings.consumer_module()
