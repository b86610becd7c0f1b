"""A pytest plugin for aiokafka's integration tests, in place of a `conftest.py` that needs Docker.

`SUITE_SERVERS` is the address of a running broker, `SUITE_KAFKA_VERSION` the version to test for.
"""

import asyncio
import os
from collections.abc import Generator

import pytest

HOST, PORT = os.environ["SUITE_SERVERS"].rsplit(":", 1)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest) -> Generator[None]:
    """Give a class of tests an event loop.

    Yields:
        While its tests run.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        request.cls.loop = loop
        yield
        asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest) -> None:
    """Give a class of tests an event loop and the address of the broker."""
    request.getfixturevalue("setup_test_class_serverless")
    request.cls.kafka_host = HOST
    request.cls.kafka_port = int(PORT)
    request.cls.hosts = [f"{HOST}:{PORT}"]
    request.cls.kafka_version = os.environ["SUITE_KAFKA_VERSION"]
