"""Write the table of what the embedded broker serves into `docs/embedded_broker.md`.

Versions are asked of the handlers, and the parts that are left out are those of their docstrings.
Run by `make docs`; a test compares the page with what this module returns.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kprod.broker.handlers.registry import HANDLERS
from kprod.broker.handlers.request_handler import Handler
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.messages import MESSAGES

PAGE = Path(__file__).parent.parent / "docs" / "embedded_broker.md"
BEGIN = "<!-- requests that are served: written by `make docs` -->"
END = "<!-- end of the requests -->"
_LEFT_OUT = re.compile(r"^Left out: (.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_HEAD = "| request | versions | Kafka's | left out |\n|---|---|---|---|"


def block() -> str:
    """Return the table between its marks, and the requests that are not served."""
    table = "\n".join([_HEAD, *_rows()])
    return f"{BEGIN}\n\n{table}\n\nNot served: {', '.join(_others())}.\n\n{END}"


def _rows() -> Iterator[str]:
    for handler in HANDLERS:
        ours, theirs = handler.advertised, SUPPORTED[ApiKey(handler.api_key)]
        cells = (_name(handler.api_key), _span(ours), _span(theirs), _left_out(handler))
        yield f"| {' | '.join(cells)} |"


def _others() -> Iterator[str]:
    """The requests of clients that have no handler, of those in the protocol's tables."""
    served = {handler.api_key for handler in HANDLERS}
    return (_name(key) for key in SUPPORTED if key not in served)


def _name(api_key: int) -> str:
    names = {it.api_key: it.name.removesuffix("Request") for it in MESSAGES if _is_request(it.name)}
    return names[int(api_key)]


def _is_request(name: str) -> bool:
    return name.endswith("Request")


def _span(versions: tuple[int, int]) -> str:
    first, last = versions
    return str(first) if first == last else f"{first}–{last}"


def _left_out(handler: type[Handler]) -> str:
    text = sys.modules[handler.__module__].__doc__ or ""
    found = _LEFT_OUT.search(text)
    left_out = " ".join(found[1].split()).rstrip(".") if found else ""
    return "" if left_out == "nothing" else left_out


def main() -> None:
    """Write the page."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + block() + after, "utf-8")


if __name__ == "__main__":
    main()
