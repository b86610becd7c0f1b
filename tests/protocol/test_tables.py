"""The committed tables are what the generator makes of Kafka's jars."""

import os
import shutil
from pathlib import Path

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import REQUESTS, RESPONSES
from kprod.protocol.messages import MESSAGES
from kprod.protocol.schema import Field, Message
from tools.generate_protocol import default_jars, generate, snake


def _missing() -> str:
    absent = [str(jar) for jar in default_jars() if not jar.exists()]
    if absent:
        return f"not in the local Maven cache: {', '.join(absent)}"
    return "" if shutil.which("java") else "there is no java"


@pytest.mark.slow
def test_the_tables_are_up_to_date() -> None:
    """Generating again changes nothing."""
    missing = _missing()
    if missing and os.environ.get("KPROD_REQUIRE_KAFKA") != "1":
        pytest.skip(missing)
    assert not missing
    for path, text in generate(*default_jars()).items():
        assert Path(path).read_text(encoding="utf-8") == text, f"{path} is stale"


def test_every_request_has_its_response() -> None:
    """Same keys, same versions, and a name in `ApiKey`."""
    assert set(REQUESTS) == set(RESPONSES)
    for key, request in REQUESTS.items():
        assert request.versions == RESPONSES[key].versions
        assert snake(request.name.removesuffix("Request")).upper() == ApiKey(key).name


def _check(fields: tuple[Field, ...], versions: tuple[int, int]) -> None:
    for version in range(versions[0], versions[1] + 1):
        tags = [f.tag for f in fields if f.tagged and f.tagged[0] <= version <= f.tagged[1]]
        assert sorted(tags) == list(range(len(tags)))
    assert len({f.name for f in fields}) == len(fields)
    for field in fields:
        for inner in filter(None, (field.versions, field.nullable, field.tagged)):
            assert versions[0] <= inner[0] <= inner[1] <= versions[1]
        _check(field.fields, field.versions)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.name)
def test_a_table_is_sound(message: Message) -> None:
    """Names are unique, ranges lie within each other, tags count from 0."""
    _check(message.fields, message.versions)
