"""Closes every stage at the end of its test, and sees that all memory came back."""

from collections.abc import Iterator

import pytest

from tests.producer.stage import Stage


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - for every stage
def _close_stages() -> Iterator[None]:
    yield
    opened, Stage.opened[:] = list(Stage.opened), []
    for stage in opened:
        stage.close()
