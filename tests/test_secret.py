"""A secret prints as stars everywhere, and leaves only by `reveal`."""

import copy
import json
import pickle
import traceback

import pytest

from kprod.config import ClientConfig, Secret
from kprod.config.kinds import SecretText
from kprod.config.reading import read_settings
from kprod.config.setting import Group
from kprod.config.settings_table import field, row
from kprod.errors import ConfigError

CANARY = "c4n4ry-9f2b"


class _WithSecret(ClientConfig):
    """A table with a password in it."""

    password: Secret = field(metadata=row("pass.word", SecretText(), Group.NETWORK, "A password."))


def test_a_secret_prints_as_stars() -> None:
    """Neither `repr`, `str`, formatting, `asdict` nor an f-string shows it."""
    secret = Secret(CANARY)
    printed = [repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", f"{[secret]}"]
    printed.append(str(copy.deepcopy({"password": secret})))
    assert all(CANARY not in text and "***" in text for text in printed)
    assert secret.reveal() == CANARY


def test_a_secret_is_not_pickled_and_not_json() -> None:
    """A pickle would carry it in the clear."""
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))
    assert not hasattr(Secret(CANARY), "__dict__")


def test_secrets_compare_by_their_text() -> None:
    """Equal texts are equal secrets; a secret is not equal to its own text."""
    assert Secret(CANARY) == Secret(CANARY)
    assert hash(Secret(CANARY)) == hash(Secret(CANARY))
    assert Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY


def test_a_table_with_a_secret_prints_without_it() -> None:
    """A password in the configuration shows neither in its `repr` nor in `asdict`."""
    given = read_settings(_WithSecret, {"bootstrap_servers": "a:1", "pass.word": CANARY})
    secret = given["password"]
    assert isinstance(secret, Secret)
    assert secret.reveal() == CANARY
    assert CANARY not in repr(given)


@pytest.mark.parametrize(
    "settings", [{"password": CANARY, "pass.word": CANARY + "2"}, {"password": CANARY.encode()}]
)
def test_errors_about_a_secret_do_not_show_it(settings: dict[str, object]) -> None:
    """A contradiction or a wrong type is told without the value, in the whole traceback."""
    with pytest.raises(ConfigError) as caught:
        read_settings(_WithSecret, settings)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_any_text_compares() -> None:
    """A text that UTF-8 has no bytes for, too, of which an error would have shown the whole."""
    assert Secret("canary \ud800") == Secret("canary \ud800") != Secret("canary \ud801")
