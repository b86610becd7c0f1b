"""Texts about a member for people: each names the group, the cause and the setting to change.

Thread-safety: pure functions.
"""

from kprod.config.settings_slices import GroupSettings
from kprod.errors import BrokerError, KprodError, RemoteProtocolError
from kprod.protocol.error_table import ErrorCode, error_for


def stalled_text(settings: GroupSettings, idle_ms: int) -> str:
    """Say that a member leaves because its application asks for nothing.

    Args:
        settings: The group's settings.
        idle_ms: For how long it has asked for nothing.

    Returns:
        The text of a log line.
    """
    return (
        f"group {settings.group_id}: the application has asked for no record for {idle_ms} ms"
        f" (max_poll_interval_ms={settings.max_poll_interval_ms}), so its partitions go to other"
        " members; it joins again with its next poll. Call progress() during long work, or raise"
        " max_poll_interval_ms"
    )


def fenced_error(settings: GroupSettings, cause: KprodError | None = None) -> BrokerError:
    """Create the error of a static member that another process has replaced.

    Args:
        settings: The group's settings.
        cause: The error of the request that was rejected, if another one than this.

    Returns:
        The error.
    """
    error = error_for(
        ErrorCode.FENCED_INSTANCE_ID,
        f"another member of group {settings.group_id!r} uses group_instance_id="
        f"{settings.group_instance_id!r}: give each process its own, or close this one",
    )
    error.__cause__ = cause
    return error


def unoffered_error(settings: GroupSettings, name: object) -> RemoteProtocolError:
    """Create the error for a group that chose what the member did not offer.

    Args:
        settings: The group's settings.
        name: Name of the chosen assignor, as the coordinator sent it.

    Returns:
        The error.
    """
    return RemoteProtocolError(
        f"group {settings.group_id!r} chose the assignor {name!r:.80}, which this member did not"
        " offer"
    )
