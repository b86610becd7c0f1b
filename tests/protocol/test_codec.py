"""The codec by example: bytes worked out by hand, rejected values, and the texts."""

import collections
from typing import Any
from uuid import UUID

import pytest

from kprod.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec, structure_codec

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_metadata_12_by_hand() -> None:
    """Compact lengths are one more than the length, null is 0, tags end each structure."""
    encoded = request_codec(ApiKey.METADATA, 12).encode(
        {"topics": [{"topic_id": TOPIC_ID, "name": None}], "allow_auto_topic_creation": False}
    )
    one_topic, null_name, no_tags, no, no_more = b"\x02", b"\x00", b"\x00", b"\x00\x00", b"\x00"
    assert encoded == one_topic + TOPIC_ID.bytes + null_name + no_tags + no + no_more


def test_list_offsets_0_by_hand() -> None:
    """A version that Kafka 4 withdrew, with a field and a list that it alone has."""
    body = {
        "replica_id": -1,
        "topics": [
            {
                "name": "t",
                "partitions": [{"partition_index": 1, "timestamp": -2, "max_num_offsets": 3}],
            }
        ],
    }
    assert request_codec(ApiKey.LIST_OFFSETS, 0).encode(body) == bytes.fromhex(
        "ffffffff 00000001 0001 74 00000001 00000001 fffffffffffffffe 00000003"
    )
    answer = bytes.fromhex("00000001 0001 74 00000001 00000001 0000 00000001 0000000000000007")
    decoded = response_codec(ApiKey.LIST_OFFSETS, 0).decode(answer)
    (partition,) = decoded["topics"][0]["partitions"]
    assert partition["old_style_offsets"] == [7]
    assert partition["offset"] == -1


def test_a_nullable_structure_says_whether_it_is_there() -> None:
    """−1 for null, else 1 and the structure."""
    codec = request_codec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    without = codec.encode({"topics": [], "response_partition_limit": 5, "cursor": None})
    assert without == bytes.fromhex("01 00000005 ff 00")
    cursor = {"topic_name": "t", "partition_index": 2}
    with_one = codec.encode({"topics": [], "response_partition_limit": 5, "cursor": cursor})
    assert with_one == bytes.fromhex("01 00000005 01 0274 00000002 00 00")
    assert codec.decode(with_one)["cursor"] == cursor
    assert codec.decode(without)["cursor"] is None


def test_tagged_fields_are_written_only_when_they_say_something() -> None:
    """A default is not sent; another value is, with tag and size, and the count follows."""
    codec = response_codec(ApiKey.PRODUCE, 10)
    partition = {"index": 1, "error_code": 6, "base_offset": -1}
    leader = {"leader_id": 2, "leader_epoch": 9}

    def encode(**tagged: Any) -> bytes:
        body = {"name": "t", "partition_responses": [partition | tagged]}
        return codec.encode({"responses": [body]})

    plain = encode()
    assert encode(current_leader={"leader_id": -1, "leader_epoch": -1}) == plain
    tagged = encode(current_leader=leader)
    assert bytes.fromhex("01 00 09 00000002 00000009 00") in tagged
    assert len(tagged) == len(plain) + 11
    decoded = codec.decode(tagged)
    assert decoded["responses"][0]["partition_responses"][0]["current_leader"] == leader


def test_absent_fields_come_as_fresh_defaults() -> None:
    """Fields that a version lacks have their default, and no two results share a list."""
    codec = response_codec(ApiKey.PRODUCE, 3)
    partition = {"index": 0, "error_code": 0, "base_offset": 5}
    encoded = codec.encode({"responses": [{"name": "t", "partition_responses": [partition]}]})
    first, second = (codec.decode(encoded)["responses"][0] for _ in range(2))
    assert first["topic_id"] == UUID(int=0)
    (one,), (other,) = first["partition_responses"], second["partition_responses"]
    assert one["record_errors"] == []
    assert one["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
    one["record_errors"].append(1)
    one["current_leader"]["leader_id"] = 5
    assert other["record_errors"] == []
    assert codec.decode(encoded)["responses"][0]["partition_responses"][0] == other


def test_unknown_tags_are_skipped() -> None:
    """A newer broker's field does not stop an older client."""
    codec = response_codec(ApiKey.API_VERSIONS, 3)
    plain = codec.encode({"error_code": 0, "api_keys": []})
    assert plain[-1:] == b"\x00"
    many = b"\x81\x08" + b"\x63\x02ab" * 1025
    assert codec.decode(plain[:-1] + b"\x02\x63\x02ab\xff\x7f\x00") == codec.decode(plain)
    with pytest.raises(RemoteProtocolError, match="1025 tagged fields, 1024 are allowed"):
        codec.decode(plain[:-1] + many)
    assert codec.decode(plain[:-1] + b"\x80\x08" + b"\x63\x02ab" * 1024) == codec.decode(plain)


def test_a_tagged_field_must_fill_its_size() -> None:
    """Neither more nor less than announced."""
    codec = response_codec(ApiKey.API_VERSIONS, 3)
    start = codec.encode({"error_code": 0, "api_keys": []})[:-1]
    assert (
        codec.decode(start + b"\x01\x01\x08" + bytes(7) + b"\x05")["finalized_features_epoch"] == 5
    )
    with pytest.raises(
        RemoteProtocolError, match=r"finalized_features_epoch.* of 9 bytes, 1 are left over"
    ):
        codec.decode(start + b"\x01\x01\x09" + bytes(9))
    with pytest.raises(RemoteProtocolError, match="8 bytes are needed and 7 remain"):
        codec.decode(start + b"\x01\x01\x07" + bytes(8))


@pytest.mark.parametrize("count", [2**31 - 1, 2**31 - 2, 1_000_000, 3])
def test_a_count_that_the_bytes_cannot_hold_is_rejected_at_once(count: int) -> None:
    """Before anything is allocated for it."""
    codec = response_codec(ApiKey.METADATA, 0)
    with pytest.raises(RemoteProtocolError, match=f"brokers.*array count {count}"):
        codec.decode(count.to_bytes(4) + bytes(20))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("fffffffe", "negative length -2"),
        ("80000000", "negative length -2147483648"),
        ("ffffffff", "null is not allowed"),
        ("00000001 00000000 ffff 00000000 00000000", "host.*null is not allowed"),
        ("00000001 00000000 7fff 00000000 00000000", "host.*32767 bytes are needed"),
        ("00000001 00000000 0001 ff 00000000 00000000", "host.*not UTF-8"),
        ("00000001 00000000 0002 c080 00000000 00000000", "host.*not UTF-8"),
    ],
)
def test_impossible_lengths_and_text_are_rejected(frame: str, text: str) -> None:
    """The error names message, version, field and place."""
    with pytest.raises(RemoteProtocolError, match=text) as caught:
        response_codec(ApiKey.METADATA, 0).decode(bytes.fromhex(frame))
    assert str(caught.value).startswith("MetadataResponse v0: brokers")
    assert ", at byte " in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("ffffffff0f", "array count 4294967294"),
        ("ffffffff1f", "exceeds 32 bits"),
        ("ffffffffff01", "exceeds 32 bits"),
        ("80", "at byte 0: a varint ends early"),
    ],
)
def test_impossible_varints_are_rejected(frame: str, text: str) -> None:
    """A length of more than 32 bits, or without an end."""
    with pytest.raises(RemoteProtocolError, match=text):
        request_codec(ApiKey.METADATA, 12).decode(bytes.fromhex(frame))


def test_records_are_views_of_the_input() -> None:
    """Nothing is copied; null records are None."""
    codec = request_codec(ApiKey.PRODUCE, 9)
    partitions = [{"index": 0, "records": b"record bytes"}, {"index": 1, "records": None}]
    encoded = codec.encode({"topic_data": [{"name": "t", "partition_data": partitions}]})
    for source in (encoded, bytearray(encoded), memoryview(encoded)):
        first, second = codec.decode(source)["topic_data"][0]["partition_data"]
        assert isinstance(first["records"], memoryview)
        assert bytes(first["records"]) == b"record bytes"
        assert second["records"] is None
    changed = bytearray(encoded)
    records = codec.decode(changed)["topic_data"][0]["partition_data"][0]["records"]
    changed[changed.index(b"record")] = ord("R")
    assert bytes(records) == b"Record bytes"


def test_records_are_written_from_anything_bytes_like() -> None:
    """bytes, bytearray, and views with or without an offset."""
    codec = request_codec(ApiKey.PRODUCE, 9)
    written = set()
    for records in (b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        partition = {"index": 0, "records": records}
        written.add(codec.encode({"topic_data": [{"name": "t", "partition_data": [partition]}]}))
    assert len(written) == 1


def test_unknown_codes_stay_numbers() -> None:
    """An error code that no table has is an int like any other."""
    codec = response_codec(ApiKey.INIT_PRODUCER_ID, 0)
    assert codec.decode(codec.encode({"error_code": 30_000}))["error_code"] == 30_000


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"acks": 2**15}, "acks: 32768 is outside -32768 to 32767"),
        ({"acks": -(2**15) - 1}, "acks: -32769 is outside"),
        ({"acks": 2**80}, "acks: 1208925819614629174706176 is outside"),
        ({"acks": True}, "acks: an int is wanted, not bool"),
        ({"acks": 1.0}, "acks: an int is wanted, not float"),
        ({"acks": None}, "acks: an int is wanted, null is not allowed"),
        ({"acks": "1"}, "acks: an int is wanted, not str"),
        ({"transactional_id": b"x"}, "transactional_id: a str is wanted, not bytes"),
        ({"transactional_id": "\ud800"}, "transactional_id: not encodable as UTF-8"),
        ({"transactional_id": "ä" * 16_384}, "transactional_id: string of 32768 bytes, 32767"),
        ({"topic_data": None}, "topic_data: a list or tuple is wanted, null"),
        ({"topic_data": {}}, "topic_data: a list or tuple is wanted, not dict"),
        ({"topic_data": [5]}, "topic_data: a mapping is wanted, not int"),
        ({"topic_data": [{"name": None}]}, "topic_data.name: a str is wanted, null"),
        ({"topic_data": [{"partition_data": [{"records": "x"}]}]}, "records: a bytes-like object"),
        ({"topic_data": [{"partition_data": [{"records": 7}]}]}, "records: a contiguous bytes"),
        ({"ack": 1}, "there is no field 'ack'"),
        ({"topic_data": [{"topic": "t"}]}, "topic_data: there is no field 'topic'"),
    ],
)
def test_what_cannot_be_written_is_rejected(body: dict[str, Any], text: str) -> None:
    """The error names message, version and field."""
    with pytest.raises(LocalProtocolError, match=f"ProduceRequest v9: .*{text}"):
        request_codec(ApiKey.PRODUCE, 9).encode(body)


def test_a_value_that_the_version_would_lose_is_rejected() -> None:
    """A default or an ignorable field may be given in any version, anything else may not."""
    codec = request_codec(ApiKey.PRODUCE, 2)
    assert codec.encode({"transactional_id": None}) == codec.encode({})
    with pytest.raises(LocalProtocolError, match=r"v2: transactional_id: .*'mine' would be lost"):
        codec.encode({"transactional_id": "mine"})
    old = {"topics": [{"partitions": [{"old_style_offsets": 5}]}]}
    with pytest.raises(LocalProtocolError, match=r"v4: topics\.partitions\.old_style_offsets: "):
        response_codec(ApiKey.LIST_OFFSETS, 4).encode(old)
    topic = {"name": "t", "partition_data": []}
    by_name = request_codec(ApiKey.PRODUCE, 12)
    assert by_name.encode({"topic_data": [topic | {"topic_id": TOPIC_ID}]}) == by_name.encode(
        {"topic_data": [topic]}
    )


def test_any_mapping_can_be_written() -> None:
    """Not only a dict."""
    codec = response_codec(ApiKey.SASL_AUTHENTICATE, 0)
    body = {"error_code": 0, "auth_bytes": b"x"}
    assert codec.encode(collections.ChainMap(body)) == codec.encode(body)


@pytest.mark.parametrize("version", [-1, 14, 32_767])
def test_unknown_versions_and_keys_are_named(version: int) -> None:
    """The text says which versions there are."""
    with pytest.raises(UnsupportedVersion, match=f"ProduceRequest has versions 0 to 13.*{version}"):
        request_codec(ApiKey.PRODUCE, version)
    with pytest.raises(UnsupportedVersion, match="API key 4711"):
        response_codec(4711, 0)


def test_codecs_are_made_once() -> None:
    """The same message and version is the same codec, however its key is written."""
    assert request_codec(ApiKey.FETCH, 4) is request_codec(1, 4)
    assert request_codec(1, 11).flexible is False
    assert request_codec(1, 12).flexible is True


def test_embedded_structures_can_be_read() -> None:
    """Group members' subscriptions travel as bytes of a structure of their own."""
    codec = structure_codec("ConsumerProtocolSubscription", 0)
    encoded = codec.encode({"topics": ["a", "b"], "user_data": None})
    assert encoded == bytes.fromhex("00000002 0001 61 0001 62 ffffffff")
    assert codec.decode(encoded)["topics"] == ["a", "b"]
