"""Configuration of Sphinx for these pages: `make docs` builds the site, and a warning is an error.

The pages are Markdown and read well without the site. A page that is in no list of `index.md` is a
warning; lists with a `*` take pages that are not written yet.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from kprod.version import __version__

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # autodoc imports the kprod that lies beside these pages

project = "kprod"
author = "The kprod developers"
project_copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["changes"]
nitpicky = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "code"  # docstrings mark code as Markdown does
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are a list, not objects of their own
napoleon_custom_sections = [("Thread-safety", "params_style"), "Source"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
add_module_names = False

html_theme = "furo"
html_title = f"kprod {release}"
html_show_sphinx = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Have the lists of pages read by `leave_out_unwritten`."""
    app.connect("source-read", leave_out_unwritten)


def leave_out_unwritten(app: Sphinx, page: str, source: list[str]) -> None:
    """Drop the patterns of a list that match no page: they are for pages to come.

    Args:
        app: Knows where the pages are.
        page: Its name.
        source: Its text, the only entry; replaced.
    """
    if page == "index":
        lines = source[0].splitlines(keepends=True)
        source[0] = "".join(
            line for line in lines if not _is_pattern(line) or any(_pages(app, line))
        )


def _is_pattern(line: str) -> bool:
    return line.rstrip().endswith("*") and " " not in line


def _pages(app: Sphinx, pattern: str) -> list[Path]:
    return list(Path(app.srcdir).glob(pattern.strip() + ".md"))
