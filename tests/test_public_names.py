"""What `import kprod` offers: exactly this, and each name documented."""

import inspect

import kprod

PUBLIC = {
    "AsyncProducer",
    "Producer",
    "RecordFuture",
    "SendReceipt",
    "as_completed",
    "failures_of",
    "wait",
}


def test_public_names_are_exactly_these() -> None:
    """A name more is a promise, a name less breaks one."""
    assert set(kprod.__all__) == PUBLIC
    assert len(kprod.__all__) == len(PUBLIC)


def test_every_public_name_is_documented() -> None:
    """Each has a docstring of its own, and so has each of its public methods."""
    undocumented = []
    for name in sorted(PUBLIC):
        subject = getattr(kprod, name)
        members = {name: subject}
        if inspect.isclass(subject):
            members |= {
                f"{name}.{attribute}": member
                for attribute, member in vars(subject).items()
                if not attribute.startswith("_") and callable(member)
            }
        undocumented += [
            full_name
            for full_name, member in members.items()
            if not (getattr(member, "__doc__", None) or "").strip()
        ]
    assert undocumented == []
