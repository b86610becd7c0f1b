"""The common options of all commands that connect to a cluster.

Settings come from three places: the command line (`--bootstrap`, `--setting`) overrides the
environment (`KPROD_LINGER_MS`), which overrides the file of `--config` or `KPROD_CONFIG`.
Environment and file serve every command: settings that only other kinds of clients have are skipped
there. On the command line they are an error.

Thread-safety: the main thread.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import click
from click.shell_completion import CompletionItem

from kprod.config import ClientConfig, ProducerConfig
from kprod.config.config_file import read_config_file, with_overrides
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.environment import (
    CONFIG_VARIABLE,
    setting_names,
    settings_for,
    settings_of_environment,
)
from kprod.consumer.consumer import Consumer
from kprod.errors import ConfigError, KprodError
from kprod.guarded_log import guarded_logger
from kprod.network.admin_client import TIMEOUT_MS, AdminClient
from kprod.network.topic_admin import list_topics

# Limit for the completion that a person waits for after the Tab key.
COMPLETION_MS = 2_000
_COMMAND = TypeVar("_COMMAND", bound=Callable[..., Any])
_ADDRESSES = frozenset(
    {"bootstrap_servers", "bootstrap.servers", "metadata.broker.list", "metadata_broker_list"}
)


class Connecting(TypedDict):
    """The options of `connection_options`."""

    bootstrap: str | None
    config: str | None
    setting: Sequence[str]


def connection_options(command: _COMMAND) -> _COMMAND:
    """Add the options -b, -F and -X to a command."""
    return connection_options_named()(command)


def connection_options_named(
    *, bootstrap: str | None = None, config: str | None = None, setting: str | None = None
) -> Callable[[_COMMAND], _COMMAND]:
    """Make a decorator as `connection_options`, whose options have names of another tool, too.

    Args:
        bootstrap: A further name of `--bootstrap`.
        config: A further name of `--config`.
        setting: A further name of `--setting`.

    Returns:
        The decorator.
    """
    options = (
        click.option(
            *_names("bootstrap", bootstrap, "-b"),
            metavar="HOST:PORT,...",
            help="Brokers to ask first.",
        ),
        click.option(
            *_names("config", config, "-F"),
            type=click.Path(exists=True, dir_okay=False),
            envvar=CONFIG_VARIABLE,
            help="Settings, as .properties or .toml: the place for passwords.",
        ),
        click.option(
            *_names("setting", setting, "-X"),
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other setting; KPROD_NAME in the environment is one, too.",
            shell_complete=complete_setting,
        ),
    )

    def decorate(command: _COMMAND) -> _COMMAND:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _names(own: str, further: str | None, letter: str) -> list[str]:
    return [f"--{own}", *([] if further is None else [further]), letter, own]


def settings_of(options: Mapping[str, Any], table: type[ClientConfig]) -> dict[str, object]:
    """Merge the settings of file, environment and command line.

    Args:
        options: Values of the options that `connection_options` declares.
        table: Settings table of the client; `ClientConfig` for one that neither sends nor reads.

    Returns:
        Values by name.

    Raises:
        UsageError: A file or a variable is wrong.
    """
    typed: dict[str, object] = {}
    if options["bootstrap"] is not None:
        typed["bootstrap.servers"] = options["bootstrap"]
    typed = with_overrides(typed, pairs(options["setting"], "--setting"))
    try:
        kept = {} if options["config"] is None else read_config_file(options["config"])
        settings = with_overrides(kept, settings_of_environment(os.environ))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return with_overrides(settings_for(table, settings), typed)


def names_brokers(settings: Mapping[str, object]) -> bool:
    """Return whether there are addresses among settings.

    Args:
        settings: Values by name.
    """
    return not _ADDRESSES.isdisjoint(settings)


def all_settings(options: Mapping[str, Any], table: type[ClientConfig]) -> dict[str, object]:
    """Merge all settings, as `settings_of`; they must name brokers.

    Args:
        options: See there.
        table: See there.

    Returns:
        Values by name.

    Raises:
        UsageError: A file or a variable is wrong, or no brokers are named.
    """
    settings = settings_of(options, table)
    if not names_brokers(settings):
        raise click.UsageError(
            "no brokers are named: give --bootstrap localhost:9092, bootstrap.servers in a --config"
            " file, or KPROD_BOOTSTRAP_SERVERS in the environment"
        )
    return settings


def client_config(options: Mapping[str, Any]) -> ProducerConfig:
    """Return the client settings for a command that neither sends nor consumes records.

    Args:
        options: Values of the options that `connection_options` declares.

    Returns:
        The checked settings.

    Raises:
        UsageError: A setting is invalid, or no broker is given.
    """
    settings = with_overrides({"client.id": "kprod"}, all_settings(options, ClientConfig))
    try:
        return ProducerConfig.parse(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def open_admin(config: ClientConfig, *, timeout_ms: int = TIMEOUT_MS) -> Generator[AdminClient]:
    """Connect to a cluster for as long as a command asks it things.

    Args:
        config: The client settings.
        timeout_ms: Timeout of each request.

    Yields:
        The connection. Logging is disabled, since an error ends the command with its text.
    """
    with _without_logging(), AdminClient(config, timeout_ms=timeout_ms) as admin:
        yield admin


@contextlib.contextmanager
def open_reader(settings: Mapping[str, object], **more: object) -> Generator[Consumer]:
    """Open a consumer of the records in the logs, for as long as a command needs it.

    Args:
        settings: A client's settings; those that no consumer has are left out.
        more: Settings by their Python names, which win.

    Yields:
        The consumer, without assigned partitions. Logging is disabled, as by `open_admin`.

    Raises:
        ConfigError: A setting is wrong.
    """
    own = with_overrides(
        settings_for(ConsumerConfig, settings), {"auto.offset.reset": "earliest", **more}
    )
    with _without_logging(), Consumer(settings=own) as consumer:
        yield consumer


@contextlib.contextmanager
def _without_logging() -> Generator[None]:
    logger = guarded_logger("kprod").target
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE texts.

    Args:
        texts: The texts as typed.
        option: The option's name, for error texts.

    Returns:
        Values by name; a repeated name takes the last value.

    Raises:
        BadParameter: A text has no `=`, or no name before it.
    """
    read: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not (found and name):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        read[name] = value
    return read


def complete_topic(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Complete a topic name by a query to the cluster in the options; returns nothing on errors.

    Args:
        context: Context with the options typed so far.
        parameter: Unused.
        incomplete: The part of the name typed so far.

    Returns:
        The names with this beginning.
    """
    return completed_by(context, incomplete, _public_topics)


def completed_by(
    context: click.Context, incomplete: str, names: Callable[[AdminClient], Iterable[str]]
) -> list[CompletionItem]:
    """Complete a name by a query to the cluster in the options; returns nothing on errors.

    Args:
        context: Context with the options typed so far.
        incomplete: The part of the name typed so far.
        names: Asks the cluster for all names.

    Returns:
        The names with this beginning.
    """
    typed = {"bootstrap": None, "config": os.environ.get(CONFIG_VARIABLE), "setting": ()}
    typed |= {name: value for name, value in context.params.items() if name in typed and value}
    try:
        with open_admin(client_config(typed), timeout_ms=COMPLETION_MS) as admin:
            return [CompletionItem(it) for it in names(admin) if it.startswith(incomplete)]
    except (KprodError, click.ClickException, OSError):
        return []


def _public_topics(admin: AdminClient) -> list[str]:
    return [topic.name for topic in list_topics(admin) if not topic.is_internal]


def complete_setting(
    context: click.Context,  # noqa: ARG001 - click's
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the name of a client setting, in Kafka's spelling or kprod's.

    Args:
        context: Unused.
        parameter: Unused.
        incomplete: The part of the name typed so far.

    Returns:
        The names with this beginning, followed by `=`; without any letter, the names with dots.
    """
    names = sorted(name for name in setting_names() if name.startswith(incomplete.lower()))
    if not incomplete:
        names = [name for name in names if "." in name]
    return [CompletionItem(f"{name}=") for name in names]
