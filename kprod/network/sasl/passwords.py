"""A password that an application gives as a text, or as a function that is asked before each login.

Thread-safety: a function runs on the login thread, one call at a time.
"""

from collections.abc import Callable

from kprod.errors import AuthenticationFailed
from kprod.peer_text import peer_text
from kprod.secret import Secret

Password = Secret | Callable[[], object]


def present_password(password: Password) -> Secret:
    """Find out the password of now.

    Args:
        password: Itself, or a function of the application.

    Returns:
        The password.

    Raises:
        AuthenticationFailed: The function raised, or returned no text.
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
