"""Rules between settings: contradictory settings are errors, defaults are adapted."""

import logging

import pytest

from kprod.config import ProducerConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.errors import ConfigError


def parse(**settings: object) -> ProducerConfig:
    """Return a configuration with one broker and some settings more."""
    return ProducerConfig.parse({"bootstrap_servers": "localhost:9092", **settings})


def test_batch_size_zero_means_one_record_a_batch() -> None:
    """0 is legal and becomes 1; with 0 the choice of partitions would loop (KAFKA-14303)."""
    assert parse(batch_size=0).batch_size == 1


def test_default_batch_fits_a_small_request() -> None:
    """A smaller `max_request_size` bounds batches too, unless a batch size is asked for."""
    assert parse(max_request_size=50_000).batch_size == 50_000
    assert parse(max_request_size=50_000, batch_size=60_000).batch_size == 60_000


def test_delivery_timeout_below_its_parts_is_an_error() -> None:
    """All asked for and too small: no request would be given its time."""
    with pytest.raises(ConfigError, match=r"5 \+ 30000 = 30005"):
        parse(delivery_timeout_ms=30_004, linger_ms=5, request_timeout_ms=30_000)
    settled = parse(delivery_timeout_ms=30_005, linger_ms=5, request_timeout_ms=30_000)
    assert settled.delivery_timeout_ms == 30_005


@pytest.mark.parametrize(
    ("given", "request_timeout_ms", "linger_ms"),
    [
        ({"delivery_timeout_ms": 1_000}, 995, 5),
        ({"delivery_timeout_ms": 1}, 1, 0),
        ({"delivery_timeout_ms": 1_000, "linger_ms": 400}, 600, 400),
        ({"delivery_timeout_ms": 1_000, "request_timeout_ms": 998}, 998, 2),
        ({"delivery_timeout_ms": 1_000, "request_timeout_ms": 1_000}, 1_000, 0),
        ({"delivery_timeout_ms": 60_000}, 30_000, 5),
    ],
)
def test_defaults_give_way_to_a_delivery_timeout(
    given: dict[str, object],
    request_timeout_ms: int,
    linger_ms: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Given settings stay; the others take the rest, and the log says so."""
    with caplog.at_level(logging.WARNING):
        config = parse(**given)
    assert config.delivery_timeout_ms == given["delivery_timeout_ms"]
    assert (config.request_timeout_ms, config.linger_ms) == (request_timeout_ms, linger_ms)
    lowered = {record.args[0] for record in caplog.records if isinstance(record.args, tuple)}
    expected = set()
    if config.request_timeout_ms != 30_000 and "request_timeout_ms" not in given:
        expected.add("request_timeout_ms")
    if config.linger_ms != 5 and "linger_ms" not in given:
        expected.add("linger_ms")
    assert lowered == expected


@pytest.mark.parametrize(
    "given",
    [
        {"delivery_timeout_ms": 1_000, "request_timeout_ms": 1_001},
        {"delivery_timeout_ms": 1_000, "linger_ms": 1_000},
        {"delivery_timeout_ms": 1_000, "linger_ms": 500, "request_timeout_ms": 501},
    ],
)
def test_no_default_helps_against_two_wishes(given: dict[str, object]) -> None:
    """Where no default can give way enough, the given settings contradict each other."""
    with pytest.raises(ConfigError, match="must be at least linger_ms"):
        parse(**given)


def test_default_delivery_timeout_gives_way(caplog: pytest.LogCaptureFixture) -> None:
    """Not asked for and too small: raised to the sum, and the log says so."""
    with caplog.at_level(logging.WARNING):
        config = parse(request_timeout_ms=200_000, linger_ms=1_000)
    assert config.delivery_timeout_ms == 201_000
    assert "201000" in caplog.text


def test_sum_of_timeouts_saturates() -> None:
    """The longest times add up to the longest time, not beyond 32 bits."""
    longest = 2**31 - 1
    config = parse(linger_ms=longest, request_timeout_ms=longest, delivery_timeout_ms=longest)
    assert config.delivery_timeout_ms == longest


@pytest.mark.parametrize(
    ("first", "longest"),
    [
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ],
)
def test_first_wait_and_longest_wait(
    first: str, longest: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Both asked for and crossed is an error; else the default gives way to the wish."""
    with pytest.raises(ConfigError, match=f"{first} .* is above {longest}"):
        parse(**{first: 11, longest: 10})
    raised = parse(**{first: 90_000})
    assert (getattr(raised, first), getattr(raised, longest)) == (90_000, 90_000)
    lowered = parse(**{longest: 10})
    assert (getattr(lowered, first), getattr(lowered, longest)) == (10, 10)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("obstacle", [{"acks": 1}, {"acks": "0"}, {"retries": 0}])
def test_idempotence_gives_way_unless_asked_for(
    obstacle: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """As a default it is switched off with a line in the log; asked for, it is an error."""
    with caplog.at_level(logging.INFO):
        assert not parse(**obstacle).enable_idempotence
    assert "idempotence is off" in caplog.text
    with pytest.raises(ConfigError, match="enable_idempotence=True contradicts"):
        parse(enable_idempotence=True, **obstacle)
    assert not parse(enable_idempotence=False, **obstacle).enable_idempotence


def parse_consumer(**settings: object) -> ConsumerConfig:
    """A consumer's configuration with one broker and some settings more."""
    return ConsumerConfig.parse({"bootstrap_servers": "localhost:9092", **settings})


@pytest.mark.parametrize("wait_ms", [30_000, 60_000])
def test_a_fetch_that_waits_as_long_as_requests_live_is_an_error(wait_ms: int) -> None:
    """Both asked for: the text names both, in either spelling."""
    text = rf"fetch_max_wait_ms \({wait_ms}\) must be below request_timeout_ms \(30000\)"
    for settings in (
        {"fetch_max_wait_ms": wait_ms, "request_timeout_ms": 30_000},
        {"fetch.max.wait.ms": str(wait_ms), "request.timeout.ms": "30000"},
    ):
        with pytest.raises(ConfigError, match=text):
            parse_consumer(**settings)
    assert parse_consumer(fetch_max_wait_ms=29_999, request_timeout_ms=30_000)


@pytest.mark.parametrize(
    ("given", "wait_ms", "timeout_ms"),
    [
        ({}, 500, 30_000),
        ({"fetch_max_wait_ms": 40_000}, 40_000, 70_000),
        ({"fetch_max_wait_ms": 2**31 - 1 - 1}, 2**31 - 2, 2**31 - 1),
        ({"request_timeout_ms": 400}, 200, 400),
        ({"request_timeout_ms": 1}, 0, 1),
    ],
)
def test_defaults_give_way_to_a_fetch_s_wait(
    given: dict[str, object], wait_ms: int, timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The setting that was not given changes, and the log says so."""
    with caplog.at_level(logging.WARNING):
        config = parse_consumer(**given)
    assert (config.fetch_max_wait_ms, config.request_timeout_ms) == (wait_ms, timeout_ms)
    assert len(caplog.records) == len(given)
