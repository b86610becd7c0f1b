"""From what an application wrote to one value per setting: names and kinds, nothing across them.

Thread-safety: pure functions.
"""

import re
from collections.abc import Callable, Mapping

from kprod.config.foreign import advice_for
from kprod.config.quoting import shown
from kprod.config.setting import Setting
from kprod.config.settings_table import Table, rows
from kprod.errors import ConfigError
from kprod.secret import Secret

_SECRET_NAME = re.compile(r"pass|secret|jaas|key_?data|keystore.key|key.pem")
NAME_LENGTH_MAX = 200  # longer ones are not compared: finding the nearest is quadratic


def given_settings(
    face: str, settings: Mapping[str, object] | None, more_settings: Mapping[str, object]
) -> dict[str, object]:
    """Put the settings of one call together.

    Args:
        face: Name of the class that was called.
        settings: The positional argument.
        more_settings: The keyword arguments.

    Returns:
        All of them, as written. Values whose names say that they are secret are wrapped in
        `Secret`, since tools may log the local variables of a traceback.

    Raises:
        TypeError: `settings` is not a mapping; the text shows the intended call.
    """
    if settings is None:
        return _with_hidden_secrets(more_settings)
    if not hasattr(settings, "keys"):
        remedy = f"{face}(bootstrap_servers={shown(settings)})"
        if not isinstance(settings, (str, list, tuple)):
            remedy = f'{face}(bootstrap_servers="localhost:9092")'
        raise TypeError(
            f"{face} takes a mapping of settings, or settings by name, got"
            f" {type(settings).__name__}; to name the brokers, write {remedy}"
        )
    return _with_hidden_secrets({**settings, **more_settings})


def _with_hidden_secrets(settings: Mapping[str, object]) -> dict[str, object]:
    return {
        name: Secret(value) if isinstance(value, str) and names_a_secret(name) else value
        for name, value in settings.items()
    }


def names_a_secret(name: object) -> bool:
    """Whether the name of a setting says that its value is secret; also an unknown name.

    Args:
        name: A name in any spelling.

    Returns:
        True for passwords, secrets, logins in JAAS, and texts of private keys.
    """
    return isinstance(name, str) and _SECRET_NAME.search(name.lower()) is not None


def read_settings(
    table: type[Table],
    settings: Mapping[str, object],
    advice: Callable[[str], str | None] = advice_for,
) -> dict[str, object]:
    """Read settings by the table.

    Args:
        table: Its fields carry a `Setting`.
        settings: Names in any spelling, and values as written.
        advice: Returns advice about an unknown name; None if there is none.

    Returns:
        Converted values by field name, only of the given settings.

    Raises:
        ConfigError: Unknown name, wrong value, or two spellings with different values.
    """
    known = {
        spelling: (name, setting)
        for name, setting, _ in rows(table)
        for spelling in setting.spellings(name)
    }
    given: dict[str, object] = {}
    spelled: dict[str, str] = {}
    for written, value in settings.items():
        if written not in known:
            raise ConfigError(_unknown(written, known, advice))
        name, setting = known[written]
        converted = _convert(written, setting, value)
        if name in given and given[name] != converted:
            raise ConfigError(
                f"{spelled[name]} and {written} are the same setting and were given different "
                f"values, {shown(given[name])} and {shown(converted)}; give one of them"
            )
        given[name] = converted
        spelled[name] = written
    return given


def _convert(written: str, setting: Setting, value: object) -> object:
    try:
        return setting.kind.convert(value)
    except ValueError as error:
        unit = f" ({setting.unit})" if setting.unit else ""
        raise ConfigError(f"{written}{unit} {error}") from None


def _unknown(
    written: object, known: Mapping[str, object], advice_of: Callable[[str], str | None]
) -> str:
    if not isinstance(written, str):
        return f"the name of a setting is a text, not {shown(written)}"
    advice = advice_of(written)
    if advice is not None:
        return f"unknown setting {shown(written)}: {advice}"
    text = f"unknown setting {shown(written)}"
    # A bad name is met by the nearest in its own spelling: dotted by dotted.
    names = [name for name in known if ("." in name) == ("." in written)] or list(known)
    if len(written) <= NAME_LENGTH_MAX:
        import difflib  # noqa: PLC0415 - for a mistake

        nearest = difflib.get_close_matches(written.lower(), names, n=1, cutoff=0.5)
        if nearest:
            text += f"; did you mean {nearest[0]}?"
    return text
