"""Every message in every version: round trips, truncation, and what random damage does."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.errors import RemoteProtocolError
from kprod.protocol.messages import MESSAGES
from kprod.protocol.schema import Message
from tests.protocol.bodies import all_versions, bodies, codec_of, sample


def _covers(decoded: dict[str, Any], given_body: dict[str, Any]) -> bool:
    """Say whether a decoded body holds everything that the given one said."""
    for name, value in given_body.items():
        got = decoded[name]
        if isinstance(value, dict):
            same = _covers(got, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            same = len(got) == len(value) and all(map(_covers, got, value))
        else:
            same = got == value and (got is None) == (value is None)
        if not same:
            return False
    return True


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.name)
@settings(max_examples=10, deadline=None)
@given(draw=st.data())
def test_written_fields_are_read(message: Message, draw: st.DataObject) -> None:
    """Decoding gives the body back, and encoding that gives the same bytes."""
    version = draw.draw(st.integers(*message.versions))
    body = draw.draw(bodies(message, version))
    codec = codec_of(message, version)
    encoded = codec.encode(body)
    decoded = codec.decode(encoded)
    assert _covers(decoded, body)
    assert codec.encode(decoded) == encoded


def test_a_message_cut_at_any_byte_is_rejected() -> None:
    """No prefix of any sample is a message, and nothing but RemoteProtocolError comes of it."""
    for message, version in all_versions():
        codec = codec_of(message, version)
        encoded = codec.encode(sample(message, version))
        for size in range(len(encoded)):
            with pytest.raises(RemoteProtocolError):
                codec.decode(encoded[:size])


def test_a_message_with_a_tail_is_rejected() -> None:
    """A byte too many is an error that says how many there are."""
    for message, version in all_versions():
        codec = codec_of(message, version)
        with pytest.raises(RemoteProtocolError, match="1 bytes follow"):
            codec.decode(codec.encode(sample(message, version)) + b"\x00")


def test_damaged_messages_are_values_or_errors() -> None:
    """Bytes replaced at random give a body or a RemoteProtocolError, never anything else."""
    dice = random.Random(20260611)
    rejected = 0
    for message, version in all_versions():
        codec = codec_of(message, version)
        encoded = codec.encode(sample(message, version))
        for _ in range(40):
            damaged = bytearray(encoded)
            for _ in range(dice.randint(1, 3) if damaged else 0):
                damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
            try:
                codec.encode(codec.decode(damaged))
            except RemoteProtocolError:
                rejected += 1
    assert rejected > 0


@settings(max_examples=300, deadline=None)
@given(draw=st.data(), noise=st.binary(max_size=200))
def test_noise_is_a_value_or_an_error(draw: st.DataObject, noise: bytes) -> None:
    """Arbitrary bytes are rejected, or read as a body whose bytes are stable from then on."""
    message, version = draw.draw(st.sampled_from(list(all_versions())))
    codec = codec_of(message, version)
    try:
        body = codec.decode(noise)
    except RemoteProtocolError:
        return
    encoded = codec.encode(body)
    assert codec.encode(codec.decode(encoded)) == encoded


def test_defaults_alone_make_every_message() -> None:
    """An empty body is written with defaults; the read body says so in every field."""
    for message, version in all_versions():
        codec = codec_of(message, version)
        decoded = codec.decode(codec.encode({}))
        assert set(decoded) == {field.name for field in message.fields}
