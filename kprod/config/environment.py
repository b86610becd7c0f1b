"""Settings from the environment: `KPROD_BOOTSTRAP_SERVERS` is `bootstrap_servers`, and so on.

The environment, as a file, may have settings of producers and of consumers beside one another:
`settings_for` takes out those of one kind of client.

The library itself reads no environment; the command line does. Names that are not settings belong
to someone else and are left alone, but one that nearly is a setting is rejected: it was meant as
one.

Thread-safety: pure functions.
"""

import difflib
from collections.abc import Mapping

from kprod.config.client_config import ClientConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.foreign import BELONGS_TO_CONSUMER, advice_for
from kprod.config.foreign_consumer import BELONGS_TO_PRODUCER, consumer_advice_for
from kprod.config.producer_config import ProducerConfig
from kprod.config.security_config import SecurityConfig
from kprod.config.settings_table import Table, rows
from kprod.errors import ConfigError

TABLES: tuple[type[Table], ...] = (ProducerConfig, ConsumerConfig, SecurityConfig)
PREFIX = "KPROD_"
CONFIG_VARIABLE = "KPROD_CONFIG"
_ALIKE = 0.85  # difflib's ratio for a short name with one wrong letter


def setting_names() -> frozenset[str]:
    """Return every name that a setting may have, in small letters."""
    return frozenset().union(*map(_spellings, TABLES))


def settings_of_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """Read the settings in an environment.

    Args:
        environment: Variables by name, such as `os.environ`.

    Returns:
        Values by name.

    Raises:
        ConfigError: A variable's name is almost a setting's; the text has the intended name, and no
            value.
    """
    known = {name for name in setting_names() if "." not in name}
    settings: dict[str, object] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in known:
            settings[name] = value
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        if near:
            meant = PREFIX + near[0].upper()
            raise ConfigError(
                f"the environment has {variable}, which is not a setting; did you mean {meant}?"
            )
    return settings


def settings_for(table: type[ClientConfig], settings: Mapping[str, object]) -> dict[str, object]:
    """Leave out what only other kinds of clients have: one file serves every command.

    Args:
        table: Settings table of the client; `ClientConfig` for one that neither sends nor reads.
        settings: Values by name, in any spelling.

    Returns:
        The settings of that client, and names that nothing knows, which a parser rejects.
    """
    own = _spellings(table) | _spellings(SecurityConfig)
    return {
        name: value
        for name, value in settings.items()
        if name.lower() in own or not _belongs_elsewhere(name, table)
    }


def _belongs_elsewhere(name: str, table: type[ClientConfig]) -> bool:
    """Whether another kind of client has a setting of this name, here or in Kafka."""
    if name.lower() in setting_names():
        return True
    if table is not ConsumerConfig and advice_for(name) == BELONGS_TO_CONSUMER:
        return True
    advice = consumer_advice_for(name) if table is not ProducerConfig else None
    return advice is not None and advice.startswith(BELONGS_TO_PRODUCER)


def _spellings(table: type[Table]) -> frozenset[str]:
    return frozenset(
        spelling.lower() for name, setting, _ in rows(table) for spelling in setting.spellings(name)
    )
