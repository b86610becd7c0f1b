"""How every command is told which cluster is meant, and how to connect to it.

Settings come from three places. The command line (`--bootstrap`, `--setting`) wins over the
environment (`KPROD_LINGER_MS`), and that over the file of `--config` or `KPROD_CONFIG`.

Thread-safety: the main thread.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import click
from click.shell_completion import CompletionItem

from kprod.config import ProducerConfig
from kprod.config.config_file import read_config_file, with_overrides
from kprod.config.environment import (
    CONFIG_VARIABLE,
    client_settings,
    setting_names,
    settings_of_environment,
)
from kprod.errors import ConfigError, KprodError
from kprod.guarded_log import guarded_logger
from kprod.network.admin_client import TIMEOUT_MS, AdminClient
from kprod.network.topic_admin import list_topics

# What a person may wait for behind the Tab key.
_COMPLETION_MS = 2_000
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
    """Give a command the options that name a cluster: -b, -F and -X."""
    options = (
        click.option("--bootstrap", "-b", metavar="HOST:PORT,...", help="Brokers to ask first."),
        click.option(
            "--config",
            "-F",
            type=click.Path(exists=True, dir_okay=False),
            envvar=CONFIG_VARIABLE,
            help="Settings, as .properties or .toml: the place for passwords.",
        ),
        click.option(
            "--setting",
            "-X",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other setting; KPROD_NAME in the environment is one, too.",
            shell_complete=complete_setting,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def all_settings(options: Mapping[str, Any]) -> dict[str, object]:
    """Put the settings of file, environment and command line together.

    Args:
        options: Those of `connection_options`.

    Returns:
        Values by name, brokers among them.

    Raises:
        UsageError: A file or a variable is wrong, or no brokers are named.
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
    settings = with_overrides(settings, typed)
    if _ADDRESSES.isdisjoint(settings):
        raise click.UsageError(
            "no brokers are named: give --bootstrap localhost:9092, bootstrap.servers in a --config"
            " file, or KPROD_BOOTSTRAP_SERVERS in the environment"
        )
    return settings


def client_config(options: Mapping[str, Any]) -> ProducerConfig:
    """Read how to connect, for a command that sends nothing.

    Args:
        options: Those of `connection_options`; settings of producers are read past.

    Returns:
        Checked settings.

    Raises:
        UsageError: A setting is wrong, or no brokers are named.
    """
    settings = {"client.id": "kprod"} | client_settings(all_settings(options))
    try:
        return ProducerConfig.parse(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def open_admin(config: ProducerConfig, *, timeout_ms: int = TIMEOUT_MS) -> Generator[AdminClient]:
    """Connect to a cluster for as long as a command asks it things.

    Args:
        config: How to connect.
        timeout_ms: For each thing that is asked.

    Yields:
        The connection. Nothing is logged meanwhile, since an error ends the command with its
            text.
    """
    logger = guarded_logger("kprod").target
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with AdminClient(config, timeout_ms=timeout_ms) as admin:
            yield admin
    finally:
        logger.setLevel(level)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Read NAME=VALUE texts.

    Args:
        texts: As typed.
        option: Where, for the text of an error.

    Returns:
        Values by name; the last one of a name counts.

    Raises:
        BadParameter: One has no `=`, or no name before it.
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
    """Complete a topic's name by asking the cluster that was typed so far; nothing on any error.

    Args:
        context: Has the options before.
        parameter: Not looked at.
        incomplete: The name as typed so far.

    Returns:
        Names that begin so.
    """
    typed = {"bootstrap": None, "config": os.environ.get(CONFIG_VARIABLE), "setting": ()}
    typed |= {name: value for name, value in context.params.items() if name in typed and value}
    try:
        with open_admin(client_config(typed), timeout_ms=_COMPLETION_MS) as admin:
            topics = list_topics(admin)
    except (KprodError, click.ClickException, OSError):
        return []
    return [
        CompletionItem(topic.name)
        for topic in topics
        if topic.name.startswith(incomplete) and not topic.is_internal
    ]


def complete_setting(
    context: click.Context,  # noqa: ARG001 - click's
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the name of a client's setting, in Kafka's spelling or kprod's.

    Args:
        context: Not looked at.
        parameter: Not looked at.
        incomplete: The name as typed so far.

    Returns:
        Names with `=` that begin so; without a letter, the dotted ones.
    """
    names = sorted(name for name in setting_names() if name.startswith(incomplete.lower()))
    if not incomplete:
        names = [name for name in names if "." in name]
    return [CompletionItem(f"{name}=") for name in names]
