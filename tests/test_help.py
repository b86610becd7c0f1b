"""`help` begins with an example, which runs, and names what a user may call."""

import asyncio
import inspect
import pydoc
import textwrap
from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster

READERS = (kprod.Consumer, kprod.AsyncConsumer)
FACES = (kprod.Producer, kprod.AsyncProducer, *READERS, EmbeddedCluster)
ADDRESS = "localhost:9092"


@pytest.fixture
def address() -> Iterator[str]:
    """Return the address of a broker with the topic of the examples."""
    with EmbeddedCluster(brokers=1, topics={"orders": 2}) as cluster:
        yield cluster.bootstrap_servers


def _example(face: type) -> str:
    text = inspect.getdoc(face) or ""
    _, _, rest = text.partition("Example:\n")
    return textwrap.dedent(rest.partition("\n\n")[0])


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_the_example_runs(face: type, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the address; and a consumer finds a record, and an end."""
    code = _example(face).replace(f'"{ADDRESS}"', f'"{address}"')
    if face in READERS:
        with kprod.Producer(bootstrap_servers=address) as producer:
            producer.send("orders", b"from orders").result(timeout=30)
        more = 'auto_offset_reset="earliest", consumer_timeout_ms=1_000'
        code = code.replace(f'"{address}"', f'"{address}", {more}')
    names: dict[str, object] = {face.__name__: face}
    if "await" in code or "async" in code:
        code = f"async def main():\n{textwrap.indent(code, '    ')}\n"
        exec(code, names)  # noqa: S102 - the project's own docstring
        main = names["main"]
        assert callable(main)
        asyncio.run(main())
    else:
        exec(code, names)  # noqa: S102 - likewise
    assert "orders" in capsys.readouterr().out or face is EmbeddedCluster


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_help_shows_the_public_names(face: type) -> None:
    """The example comes before the methods, and each public method has its own words."""
    text = pydoc.plain(pydoc.render_doc(face))
    assert 0 < text.find("Example:") < text.find("Methods defined here")
    public = [name for name in dir(face) if not name.startswith("_")]
    assert len(public) >= 5
    assert [name for name in public if name not in text] == []
    methods = [name for name in public if callable(getattr(face, name))]
    assert [name for name in methods if not inspect.getdoc(getattr(face, name))] == []
