"""What `import kprod` offers: exactly this, and each name documented."""

import inspect

import kprod

PUBLIC: set[str] = set(kprod.__all__)


def test_every_public_name_exists_and_is_documented() -> None:
    """Each name in `__all__` is there, with a docstring of its own."""
    assert len(PUBLIC) == len(kprod.__all__)
    for name in kprod.__all__:
        subject = getattr(kprod, name)
        if inspect.isclass(subject) or callable(subject):
            assert (inspect.getdoc(subject) or "").strip(), name
