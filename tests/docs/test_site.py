"""The site builds without a warning and lists what there is; generated parts are fresh."""

import html
import inspect
import operator
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from sphinx.util.inventory import InventoryFile

import kprod
from docs.pictures.draw import pictures
from kprod import broker, errors
from kprod.config import ProducerConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.foreign_consumer import consumer_advice_for
from kprod.config.settings_table import rows
from tests.config.other_clients import (
    aiokafka_settings,
    consumer_settings,
    kafka_python_settings,
    librdkafka_settings,
)
from tests.docs.examples import ROOT
from tools import generate_consumer_migrating, generate_errors, generate_migrating

LIMIT_S = 100
_OF_SECURITY = re.compile(r"security|ssl|sasl|https|oauth|enable.ssl|enable.sasl")
SIZE = re.compile(r'<svg .*?width="(\d+)" height="(\d+)"')
WORDS = re.compile(
    r'<text x="(\S+)" y="(\S+)" font-size="(\S+)" fill="\S+"(?: text-anchor="(\w+)")?[^>]*>([^<]*)<'
)
SHIFTS = {"": 0.0, "middle": 0.5, "end": 1.0}
LETTER_WIDTH = 0.55  # as a share of its height, in the fonts that browsers take


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    built = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", built],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return built


@pytest.mark.slow
def test_every_page_is_built(site: Path) -> None:
    """A page that no list names would be a warning; one in a list is a file."""
    wanted = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert wanted <= {path.stem for path in site.glob("*.html")}


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    """Those of `kprod`, `kprod.errors` and `kprod.broker`."""
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", operator.add)
    described = {name for kind in inventory for name in inventory[kind] if kind.startswith("py:")}
    wanted = [_names(package, name) for package in (kprod, broker) for name in package.__all__]
    wanted += [{f"kprod.errors.{name}"} for name in _error_names()]
    assert [names for names in wanted if not names & described] == []


def _names(package: ModuleType, name: str) -> set[str]:
    """Return the names that a public object may have in the reference."""
    found = getattr(package, name)
    module = getattr(found, "__module__", "")
    return {f"{package.__name__}.{name}", f"{module}.{getattr(found, '__qualname__', '')}"}


def test_the_page_of_errors_is_fresh() -> None:
    """The page in docs is what the code gives; `make docs` writes it."""
    assert generate_errors.PAGE.read_text(encoding="utf-8") == generate_errors.page()


def test_the_page_of_errors_has_them_all() -> None:
    """Each class of the tree, but its root's own row."""
    assert _error_names() == generate_errors.covered()


def test_the_page_of_errors_marks_those_that_nothing_raises() -> None:
    """An error whose class no code calls says so, until there is code that does."""
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "kprod").rglob("*.py*")
        if path.suffix in {".py", ".pyx"}
    )
    called = set(re.findall(r"(?<!class )\b([A-Z]\w+)\(", code))

    assert not called & generate_errors.NOT_RAISED_YET


def _error_names() -> set[str]:
    return {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.KprodError)
    }


@pytest.mark.parametrize("client", generate_migrating.CLIENTS, ids=lambda client: client.name)
def test_the_tables_of_a_client_are_fresh(client: generate_migrating.Client) -> None:
    """The page in docs is what the code gives; `make docs` writes it."""
    written = (generate_migrating.PAGES / client.page).read_text(encoding="utf-8")
    assert generate_migrating.block(client) in written


def test_the_page_of_consumer_settings_is_fresh() -> None:
    """It is what the code gives; `make docs` writes it."""
    page = generate_consumer_migrating.PAGE.read_text(encoding="utf-8")
    assert page == generate_consumer_migrating.page()


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_the_consumer_settings_of_a_client_are_whole_and_true(client: str) -> None:
    """Each that the installed client has, but those of security; each with its default there."""
    settings = consumer_settings()[client]
    stated = generate_consumer_migrating.PEERS[client]
    missing = settings.keys() - stated.keys()
    assert [name for name in missing if not _OF_SECURITY.match(name)] == []
    assert {name: settings[name] for name, default in stated.items() if default} == {
        name: default for name, default in stated.items() if default
    }


@pytest.mark.parametrize("client", generate_consumer_migrating.PEERS)
def test_every_consumer_setting_has_an_equal_or_advice(client: str) -> None:
    """The advice names no setting that only producers have."""
    own = {name for name, _, _ in rows(ConsumerConfig)}
    foreign = {name for name, _, _ in rows(ProducerConfig)} - own
    for written in generate_consumer_migrating.PEERS[client]:
        if generate_consumer_migrating.own_name(written) is None:
            answer = consumer_advice_for(written)
            assert answer, written
            assert not foreign & set(re.findall(r"\w+", answer)), (written, answer)


@pytest.mark.parametrize(
    ("client", "settings_of"),
    list(
        zip(
            generate_migrating.CLIENTS,
            (librdkafka_settings, kafka_python_settings, aiokafka_settings),
            strict=True,
        )
    ),
)
def test_the_tables_of_a_client_are_whole_and_true(
    client: generate_migrating.Client, settings_of: Callable[[], Mapping[str, str]]
) -> None:
    """They have each setting that the installed client has, with the default it has there."""
    settings = settings_of()
    missing = [name for name in settings if not generate_migrating.covers(client, name)]
    assert missing == []
    stated = {name: default for name, default in client.defaults.items() if default}
    assert stated == {name: settings[name] for name in stated}


@pytest.mark.parametrize(
    ("path", "content"), list(pictures()), ids=lambda value: getattr(value, "stem", "")
)
def test_pictures_are_fresh(path: Path, content: str) -> None:
    """They are what the constants of today give; `make docs` draws them."""
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("path", [path for path, _ in pictures()], ids=lambda path: path.stem)
def test_pictures_keep_their_words_on_the_sheet(path: Path) -> None:
    """Every word begins and ends within it, as far as the width of letters can be guessed."""
    sheet = path.read_text(encoding="utf-8")
    width, height = (float(number) for number in SIZE.findall(sheet)[0])
    written = WORDS.findall(sheet)
    assert len(written) > 20
    for x, y, size, anchor, text in written:
        length = len(html.unescape(text)) * float(size) * LETTER_WIDTH
        left = float(x) - length * SHIFTS[anchor]
        assert 0 <= left <= left + length <= width, text
        assert 0 < float(y) < height, text
