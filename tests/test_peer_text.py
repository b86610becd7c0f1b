"""Texts of peers, and every place of the client that shows one."""

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kprod.errors import KprodError
from kprod.model import Node
from kprod.network.address_cursor import literal_address
from kprod.network.resolver import look_up
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import error_for
from tests.network.scripted import World, metadata_body
from tests.producer.stage import Stage

HOSTILE = "\x1b[31m\r\nERROR all is lost\u202e\x00" + "A" * 6_000
LONGEST_RUN = 256


def _is_fit(text: str) -> bool:
    """Whether a text is one printable line that repeats little of what a peer wrote."""
    runs = (len(list(run)) for key, run in itertools.groupby(text) if key == "A")
    return text.isprintable() and max(runs, default=0) <= LONGEST_RUN


def _node_address() -> Iterator[str]:
    yield Node(1, HOSTILE, 9092).address


def _scope_of_an_address() -> Iterator[str]:
    address = literal_address(f"fe80::1%{HOSTILE}", 9092)
    yield str(address)


def _name_that_cannot_be_resolved() -> Iterator[str]:
    yield str(look_up(HOSTILE[:200], 9092).error)
    yield str(look_up(HOSTILE, 9092).error)


def _error_message() -> Iterator[str]:
    yield str(error_for(6, HOSTILE))


def _advertised_host() -> Iterator[str]:
    world = World()
    world.join({1: (HOSTILE, 9101)}, {"orders": [(1, 0)]})
    world.client.ready(world.metadata.snapshot.nodes[1], world.now_ms)
    world.resolver.answer(HOSTILE, 9101, error="unknown name")
    world.poll()
    yield world.metadata.trouble()
    yield from (
        f"{key}: {value}" for key, value in world.metadata.connection_failures.by_address.items()
    )


def _unsound_broker() -> Iterator[str]:
    world = World()
    world.join({1: (HOSTILE, 0)})
    yield world.metadata.trouble()


def _topic_name() -> Iterator[str]:
    world = World()
    world.metadata.add_topic(HOSTILE, world.now_ms)
    codec = response_codec(ApiKey.METADATA, 13)
    body = metadata_body({1: ("127.0.0.1", 9101)})
    entries: list[dict[str, Any]] = [
        {"error_code": 3},
        {"partitions": []},
        {"partitions": [_partition(5_000)]},
    ]
    for entry in entries:
        answer = {**body, "topics": [{"name": HOSTILE, **entry}]}
        world.metadata.handle_response(codec.decode(codec.encode(answer)), world.now_ms)
        yield str(world.metadata.error_of(HOSTILE))


def _partition(index: int) -> dict[str, Any]:
    return {"partition_index": index, "leader_id": 1, "replica_nodes": [], "isr_nodes": []}


def _rejected_batch() -> Iterator[str]:
    stage = Stage()
    future = stage.send(b"value")
    stage.take().answer(code=42, error_message=HOSTILE)
    stage.run()
    yield str(future.exception(0))
    stage.close()
    Stage.opened.remove(stage)


def _rejected_record() -> Iterator[str]:
    stage = Stage(linger_ms=5)
    futures = [stage.put(b"good"), stage.put(b"bad")]
    stage.run(10)
    fault = {"batch_index": 1, "batch_index_error_message": HOSTILE}
    stage.take().answer(code=87, record_errors=[fault], error_message=HOSTILE)
    stage.run()
    for future in futures:
        error = future.exception(0)
        assert isinstance(error, KprodError)
        yield str(error)
    stage.close()
    Stage.opened.remove(stage)


@pytest.mark.parametrize(
    "texts",
    [
        _node_address,
        _scope_of_an_address,
        _name_that_cannot_be_resolved,
        _error_message,
        _advertised_host,
        _unsound_broker,
        _topic_name,
        _rejected_batch,
        _rejected_record,
    ],
    ids=lambda texts: texts.__name__.strip("_"),
)
def test_what_a_peer_writes_is_one_short_printable_line(
    texts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In every error, and in every line of the log that was written on the way."""
    caplog.set_level(logging.DEBUG)

    shown = list(texts())

    assert shown
    for text in [*shown, *(record.getMessage() for record in caplog.records)]:
        assert _is_fit(text), text[:600]
