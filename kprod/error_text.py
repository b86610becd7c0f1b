"""An error's kind and text, as one short line for the text of another error.

Thread-safety: any thread; nothing is kept. The error's class may be the application's, so its code
runs here: no lock of kprod may be held.
"""

from kprod.peer_text import peer_text


def error_text(error: BaseException) -> str:
    """Return an error's text, whatever its class does in `__str__`.

    Args:
        error: The exception.

    Returns:
        Its kind and text; the text is bounded and printable.
    """
    try:
        text = peer_text(str(error))
    except Exception as failure:  # noqa: BLE001 - the application's code
        text = f"its text raised {type(failure).__name__}"
    return f"{type(error).__name__}: {text}"
