"""Options are judged before any task: each wrong one by an error that helps."""

import pickle
from pathlib import Path

import pytest

from kprod.errors import ConfigError
from kprod.spark.options import RecordErrorMode, ValueFormat, read_options

ADDRESS = {"bootstrap.servers": "one:9092"}
SKIP = {**ADDRESS, "on_record_error": "skip"}


def test_the_least_that_is_needed() -> None:
    """An address; everything else has a default."""
    options = read_options(ADDRESS)
    assert options.settings == {"client.id": "kprod-spark", **ADDRESS}
    assert read_options({**ADDRESS, "client_id": "x"}).settings == {"client_id": "x", **ADDRESS}
    assert options.topic is None
    assert options.value_format is ValueFormat.RAW
    assert options.on_record_error is RecordErrorMode.FAIL
    assert options.flush_timeout_ms is None


def test_the_id_of_a_write() -> None:
    """It is short and can be read, and its topic has a default."""
    options = read_options({**ADDRESS, "write.id": "trips 2013-01-02"})
    assert (options.write_id, options.ledger_topic) == ("trips 2013-01-02", "__kprod_spark_ledger")
    for wrong in ("", "x" * 201, "a\nb"):
        with pytest.raises(ConfigError, match=r"write\.id must have 1 to 200 printable"):
            read_options({**ADDRESS, "write.id": wrong})
    with pytest.raises(ConfigError, match=r"write\.id names none"):
        read_options({**ADDRESS, "ledger.topic": "ids"})
    with pytest.raises(ConfigError, match=r"ledger\.topic: "):
        read_options({**ADDRESS, "write.id": "x", "ledger.topic": "no topic"})


def test_everything_in_its_place(tmp_path: Path) -> None:
    """Own options, producer settings with and without the prefix, and Spark's own."""
    options = read_options(
        {
            "kafka.bootstrap.servers": "one:9092",
            "Linger.ms": "20",
            "kafka.compression.type": "lz4",
            "topic": "trips",
            "value.format": "JSON",
            "on_record_error": "dlq:trips-dead",
            "flush.timeout.ms": "5000",
            "report.path": str(tmp_path / "writes"),
            "delivery": "at_least_once",
            "key.column": "id",
            "checkpointlocation": "/somewhere",
            "queryname": "q",
            "includeheaders": "true",
        }
    )
    assert options.settings == {
        "bootstrap.servers": "one:9092",
        "linger.ms": "20",
        "compression.type": "lz4",
        "client.id": "kprod-spark",
    }
    assert options.topic == "trips"
    assert options.value_format is ValueFormat.JSON
    assert options.on_record_error is RecordErrorMode.DEAD_LETTER
    assert options.dead_letter_topic == "trips-dead"
    assert options.flush_timeout_ms == 5_000
    assert options.report_path == str(tmp_path / "writes")
    assert options.columns == {"key": "id"}
    assert pickle.loads(pickle.dumps(options)) == options


def test_references_are_left_to_the_executors() -> None:
    """A reference passes where its value cannot be judged, for any kind of setting."""
    options = read_options({"bootstrap.servers": "env:BROKERS", "linger.ms": "env:LINGER"})
    assert options.settings["bootstrap.servers"] == "env:BROKERS"
    assert options.settings["linger.ms"] == "env:LINGER"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "bootstrap.servers is missing"),
        ({**ADDRESS, "linger.mss": "5"}, "unknown option 'linger.mss'; did you mean linger.ms?"),
        ({**ADDRESS, "kafka.lingr.ms": "5"}, "did you mean linger.ms?"),
        ({**ADDRESS, "topics": "t"}, "did you mean topic?"),
        ({**ADDRESS, "on_record_eror": "t"}, "did you mean on_record_error?"),
        ({**ADDRESS, "xyzzy": "t"}, "unknown option 'xyzzy'"),
        ({**ADDRESS, "path": "t"}, "a topic is not a path"),
        ({**ADDRESS, "kafka.value.serializer": "x"}, "columns are sent as the bytes they are"),
        ({**ADDRESS, "queue.buffering.max.ms": "5"}, "kprod's name is linger_ms"),
        ({**ADDRESS, "linger.ms": "soon"}, "linger.ms (ms) must be a whole number, not 'soon'"),
        ({**ADDRESS, "kafka.bootstrap.servers": "two:1"}, "were given different values"),
        ({**ADDRESS, "topic": "white space"}, "'white space' has ' ' at index 5"),
        ({**ADDRESS, "topic": ""}, "topic's name must have at least 1 character"),
        ({**ADDRESS, "topic": ".."}, "'..' is reserved"),
        ({**ADDRESS, "value.format": "avro"}, "value.format must be raw or json, not 'avro'"),
        ({**ADDRESS, "delivery": "exactly_once"}, "has no transactions"),
        ({**ADDRESS, "on_record_error": "ignore"}, "must be fail, skip or dlq:<topic>"),
        ({**ADDRESS, "on_record_error": "dlq:"}, "name must have at least 1 character"),
        ({**ADDRESS, "flush.timeout.ms": "0"}, "must be from 1 to"),
        ({**ADDRESS, "flush.timeout.ms": "9" * 30}, "must be a whole number"),
        ({**ADDRESS, "kafka.security.protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        ({**ADDRESS, "kafka.sasl.username": "me"}, "set security_protocol=SASL_PLAINTEXT or"),
        ({**ADDRESS, "kafka.ssl.ca.location": "/ca.pem"}, "set security_protocol=SSL or"),
        ({**ADDRESS, "kafka.ssl.truststore.type": "PEM"}, "kprod sees what a file is by itself"),
        ({**ADDRESS, "ssl_context": "x"}, "an option cannot be an object; set ssl_cafile"),
        ({**ADDRESS, "oauth_cb": "x"}, "set sasl.oauth.provider=msk or azure"),
        ({**ADDRESS, "sasl.oauth.provider": "x"}, "must be oidc, msk, azure"),
        ({**ADDRESS, "max_bad_rows": "5"}, "on_record_error=fail leaves out none"),
        ({**SKIP, "max_bad_rows": "-1"}, "max_bad_rows must be a whole number from 0, not '-1'"),
        ({**SKIP, "max_bad_ratio": "5"}, "max_bad_ratio must be a number from 0 to 1, not '5'"),
        ({**SKIP, "max_bad_ratio": "nan"}, "max_bad_ratio must be a number from 0 to 1"),
        ({**SKIP, "max_bad_ratio": "few"}, "max_bad_ratio must be a number from 0 to 1"),
        ({**ADDRESS, "report.path": "/no/such/place/file"}, "there is no directory"),
    ],
)
def test_a_wrong_option_is_explained(given: dict[str, str], text: str) -> None:
    """The text names the option and what would help."""
    with pytest.raises(ConfigError) as caught:
        read_options(given)
    assert text in str(caught.value)


def test_settings_are_never_shown() -> None:
    """A password among the settings is in no repr."""
    options = read_options({**ADDRESS, "client.id": "CANARY"})
    assert "CANARY" not in repr(options)
    with pytest.raises(ConfigError) as caught:
        read_options({**ADDRESS, "kafka.client.id": "CANARY-1", "client.id": "CANARY-2"})
    assert "CANARY" not in str(caught.value)


LOGIN = {
    **ADDRESS,
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "env:PASSWORD",
    "kafka.ssl.ca.location": "/on/executors/ca.pem",
}


def test_tls_and_a_login_are_left_to_the_executors() -> None:
    """Names and rules are checked; no file is opened, and no reference is resolved."""
    options = read_options(LOGIN)
    assert options.settings["sasl.password"] == "env:PASSWORD"
    assert options.settings["ssl.ca.location"] == "/on/executors/ca.pem"
    for elsewhere in ("security.protocol", "sasl.mechanism"):
        assert read_options({**LOGIN, f"kafka.{elsewhere}": "env:ELSEWHERE"})
    module = {"sasl.jaas.config": "file:/run/jaas", "security.protocol": "SASL_SSL"}
    assert read_options({**ADDRESS, **module, "sasl.mechanism": "PLAIN"})
    keys = {"ssl.keystore.key": "file:/run/key.pem", "ssl.certificate.pem": "file:/run/cert.pem"}
    assert read_options({**ADDRESS, **keys, "security.protocol": "SSL"})


def test_a_login_in_the_clear_is_checked_where_the_brokers_are_known() -> None:
    """They may be on the executor's own machine."""
    login = {**LOGIN, "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    del login["kafka.ssl.ca.location"]
    with pytest.raises(ConfigError, match="would be sent in the clear"):
        read_options(login)
    assert read_options({**login, "bootstrap.servers": "env:BROKERS"})


@pytest.mark.parametrize("left_out", ["kafka.sasl.username", "kafka.sasl.password"])
def test_a_login_that_lacks_something(left_out: str) -> None:
    """Told before any task."""
    with pytest.raises(ConfigError, match="is missing: security_protocol=SASL_SSL needs it"):
        read_options({name: value for name, value in LOGIN.items() if name != left_out})


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.key",
        "ssl.key.pem",
        "ssl_keydata",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
    ],
)
@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_credentials_are_rejected_unseen(prefix: str, name: str) -> None:
    """Those that Spark does not hide must be references, which is said without showing them."""
    with pytest.raises(ConfigError, match=f"{name} must be env:NAME or file:/path") as caught:
        read_options({**ADDRESS, prefix + name: "CANARY"})
    assert "CANARY" not in str(caught.value)
