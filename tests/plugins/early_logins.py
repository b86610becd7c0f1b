"""Logins that are renewed every 1.2 s although a session lasts a minute.

A broker closes the connection of a request that it reads after the session's end, and so does
Kafka. A client leaves 5 to 15 % of the lifetime for that: of a session of 1.2 s, less than a loaded
machine may stop a process for. So a test that wants many renewals, and not one lost connection,
takes long sessions and renews them early.
"""

import pytest

from kprod.network import node_session
from kprod.network.sasl import tokens

SESSION_MS = 60_000
"""The lifetime for which the shares below are made."""


@pytest.fixture
def early_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew logins, and tokens, after 2 % of their time: no sooner than a broker accepts it."""
    monkeypatch.setattr(node_session, "LOGIN_AGAIN_SHARE", (0.02, 0.022))
    monkeypatch.setattr(tokens, "REFRESH_SHARE", (0.01, 0.015))
