"""A password, given by the application as text or as a function that is called before each login.

Thread-safety: the function runs on the login thread, one call at a time.
"""

from collections.abc import Callable

from kprod.errors import AuthenticationFailed
from kprod.peer_text import peer_text
from kprod.secret import Secret

Password = Secret | Callable[[], object]


def present_password(password: Password) -> Secret:
    """Return the current password.

    Args:
        password: The password, or a function that returns it.

    Returns:
        The password.

    Raises:
        AuthenticationFailed: The function raised, or did not return a string.
    """
    if isinstance(password, Secret):
        return password
    try:
        found = password()
    except Exception as cause:
        raise AuthenticationFailed(
            f"sasl_plain_password, a function, raised {type(cause).__name__}:"
            f" {peer_text(str(cause))}"
        ) from cause
    if isinstance(found, str):
        found = Secret(found)
    if not isinstance(found, Secret) or not _is_usable(found):
        raise AuthenticationFailed(
            "sasl_plain_password, a function, returned"
            f" {'an unusable text' if isinstance(found, Secret) else type(found).__name__}, not a"
            " text without NUL"
        )
    return found


def _is_usable(password: Secret) -> bool:
    try:
        password.reveal().encode()
    except UnicodeEncodeError:
        return False
    return bool(password.reveal()) and "\0" not in password.reveal()
