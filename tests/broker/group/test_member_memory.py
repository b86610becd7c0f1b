"""The memory of all groups' members has a limit."""

from typing import Any

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Member, Script

METADATA_BYTES = 1_000
LIMIT_BYTES = 3_100
"""Room for three members."""


def saying(size_bytes: int) -> list[dict[str, Any]]:
    """One protocol with metadata of this size."""
    return [{"name": "range", "metadata": b"x" * size_bytes}]


def joined(script: Script, group_id: str, size_bytes: int = METADATA_BYTES) -> Member:
    """A member that joins a group of its own."""
    member = script.member(group_id=group_id, protocols=saying(size_bytes))
    member.join_version = 3
    member.join()
    return member


def test_a_join_beyond_the_limit_is_rejected() -> None:
    """Of any group; there is room again when another member leaves."""
    script = Script(group_metadata_bytes_max=LIMIT_BYTES)
    members = [joined(script, f"group-{number}") for number in range(4)]
    answers = [it.take_join() for it in members]
    codes = [it["error_code"] for it in answers]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
    body = {"group_id": "group-1", "member_id": members[1].member_id}
    assert script.ask(ApiKey.LEAVE_GROUP, 0, **body)["error_code"] == ErrorCode.NONE
    assert joined(script, "group-5").take_join()["error_code"] == ErrorCode.NONE
    counted, found = script.member_bytes()
    assert counted == found == 3 * (METADATA_BYTES + len("range"))


def test_a_member_may_not_grow_beyond_the_limit() -> None:
    """It is removed, as from a group that is full; one that says less may come again."""
    script = Script(group_metadata_bytes_max=LIMIT_BYTES)
    first, second = (joined(script, f"group-{number}") for number in range(2))
    assert first.take_join()["error_code"] == ErrorCode.NONE
    assert second.take_join()["error_code"] == ErrorCode.NONE
    first.join(protocols=saying(METADATA_BYTES // 2))
    assert first.take_join()["error_code"] == ErrorCode.NONE
    second.join(protocols=saying(LIMIT_BYTES))
    assert second.take_join()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    counted, found = script.member_bytes()
    assert counted == found == METADATA_BYTES // 2 + len("range")


def test_joins_that_nobody_answers_end_with_their_time() -> None:
    """Whether their clients are still there or not."""
    script = Script(
        group_metadata_bytes_max=LIMIT_BYTES, group_initial_rebalance_delay_ms=1_000_000
    )
    waiting = [joined(script, GROUP) for _ in range(4)]
    assert waiting[3].take()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert script.member_bytes()[0] > LIMIT_BYTES - METADATA_BYTES
    script.world.advance(300_000)  # the joins end, two of them with a generation
    script.world.advance(300_000)  # these members have no heartbeat
    assert script.member_bytes() == (0, 0)


def test_a_group_that_moves_is_counted_once() -> None:
    """Its broker forgets it, and the next one reads it from the log."""
    script = Script(brokers=2, group_metadata_bytes_max=LIMIT_BYTES)
    script.stable(2)
    before = script.member_bytes()
    assert before[0] == before[1] > 0
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    assert script.member_bytes() == before
