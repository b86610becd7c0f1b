"""Member ids that the coordinator gave out and that nobody has used yet."""

from typing import Any

from kprod.broker.group.classic_group import Group
from kprod.broker.group.joining import UNUSED_IDS_MAX
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, REBALANCE_MS, SESSION_MS, Script, subscription

NEW: dict[str, Any] = {
    "group_id": GROUP,
    "session_timeout_ms": SESSION_MS,
    "rebalance_timeout_ms": REBALANCE_MS,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": subscription("orders")}],
}
"""A join of a client that has no id."""


def group_of(script: Script) -> Group:
    """The coordinator's group."""
    groups = script.world.cluster._kprod.engine.state.groups
    return groups.shard(0, GROUP).groups[GROUP]


def test_unused_ids_are_bounded() -> None:
    """Beyond the limit the oldest is forgotten: its client begins again, and the newest join."""
    script = Script()
    (member,) = script.stable(1)
    ids = [script.ask(ApiKey.JOIN_GROUP, 9, **NEW)["member_id"] for _ in range(UNUSED_IDS_MAX + 2)]
    assert len(set(ids)) == UNUSED_IDS_MAX + 2
    assert list(group_of(script).pending_joins) == ids[2:]
    waiting = script.world.cluster._kprod.engine.state.groups.waiting
    assert waiting.sessions.watched_count <= 2 * UNUSED_IDS_MAX
    for member_id in ids[:2]:
        code = script.ask(ApiKey.JOIN_GROUP, 9, **NEW, member_id=member_id)["error_code"]
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
    unused = [{"member_id": it} for it in ids[2:-1]]
    script.ask(ApiKey.LEAVE_GROUP, 5, group_id=GROUP, members=unused)
    newest = script.member()
    newest.member_id = ids[-1]
    newest.join()
    member.join()
    assert newest.take_join()["generation_id"] == member.take_join()["generation_id"] == 2


def test_unused_ids_end_with_their_session() -> None:
    """Also those that a full group gave out, so none is kept for longer than its timeout."""
    script = Script(group_max_size=1)
    script.ask(ApiKey.JOIN_GROUP, 9, **NEW)
    script.world.advance(SESSION_MS - 1)
    group = group_of(script)
    assert len(group.pending_joins) == 1
    script.world.advance(1)
    assert group.pending_joins == {}
