"""The TLS context of one client, created from its settings and again when a file changes.

If a file has vanished or is incomplete, or something else fails, the old context remains in use,
with a warning; the next attempt to connect checks again. Established connections keep theirs.

Invariant: a context from the application is never modified.

Thread-safety: the client's thread; the first context is created with the client.
Source: CPython's ssl; RFC 8446; librdkafka issue 2868 for renewed certificates.
"""

import os
import re
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from kprod.config import SecurityConfig
from kprod.config.key_files import ascii_of, in_memory, pem_fault, pem_or_fault, read_pem
from kprod.error_text import error_text
from kprod.errors import ConfigError
from kprod.guarded_log import guarded_logger
from kprod.secret import Secret

_logger = guarded_logger(__name__)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_MISMATCHES = {"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}  # the second: another algorithm
_LABEL = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")

_Stamp = tuple[int, int, int] | None


class TlsContext:
    """Provides the context for each new connection."""

    __slots__ = ("_config", "_context", "_stamps")

    def __init__(self, config: SecurityConfig) -> None:
        """Create the first context.

        Args:
            config: Settings with TLS.

        Raises:
            ConfigError: A file or text is invalid.
        """
        self._config = config
        self._stamps = self._files()
        self._context = config.ssl_context or make_context(config)
        if not self._context.check_hostname:
            _logger.warning(
                "host names in brokers' certificates are not checked (ssl_check_hostname): anybody"
                " with a certificate of a trusted authority can pass for a broker"
            )

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        stamps = self._files()
        if stamps != self._stamps:
            try:
                self._context = make_context(self._config)
            except Exception as error:  # noqa: BLE001 - the client's thread must not end
                _logger.warning("changed certificates are not used yet: %s", error_text(error))
            else:
                self._stamps = stamps
                _logger.info("changed certificates are used from now on")
        return self._context

    def _files(self) -> tuple[_Stamp, ...]:
        return tuple(map(_stamp, _paths(self._config)))


def make_context(config: SecurityConfig) -> ssl.SSLContext:
    """Create a context.

    Args:
        config: Settings with TLS, without a context of the application.

    Returns:
        A context that verifies brokers, and their host names unless disabled.

    Raises:
        ConfigError: A file or text is invalid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_check_hostname
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _VERSIONS[config.ssl_enabled_protocols[0]]
    context.maximum_version = _VERSIONS[config.ssl_enabled_protocols[-1]]
    if config.ssl_ciphers is not None:
        _set_ciphers(context, config.ssl_ciphers)
    _trust(context, config)
    _identify(context, config)
    return context


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers.replace(",", ":"))
    except ssl.SSLError:
        known = ", ".join(cipher["name"] for cipher in context.get_ciphers()[:3])
        raise ConfigError(
            f"ssl_ciphers={ciphers!r} names no cipher that OpenSSL has; its names look like {known}"
        ) from None


def _trust(context: ssl.SSLContext, config: SecurityConfig) -> None:
    if config.ssl_cafile is not None:
        load_authorities(context, "ssl_cafile", config.ssl_cafile, config.ssl_truststore_password)
    elif config.ssl_cadata is not None:
        load_authority_text(context, "ssl_cadata", config.ssl_cadata)
    else:
        context.load_default_certs()
    if config.ssl_crlfile is not None:
        pem = read_pem("ssl_crlfile", config.ssl_crlfile)
        try:
            with in_memory(pem) as path:
                context.load_verify_locations(path)
        except OSError as error:
            raise ConfigError(
                f"ssl_crlfile={config.ssl_crlfile!r} has no list of revoked certificates: {error}"
            ) from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def load_authorities(
    context: ssl.SSLContext, setting: str, path: str, password: Secret | None = None
) -> None:
    """Trust the authorities of a file or a directory.

    Args:
        context: Verifies by them.
        setting: Name of the setting that has the path, for errors.
        path: A file of PEM or PKCS#12, or a directory with hashed names, as OpenSSL makes it.
        password: The password of a PKCS#12 file; None for none.

    Raises:
        ConfigError: It cannot be read, or has no certificate.
    """
    if os.path.isdir(path):  # noqa: PTH112 - a text, as OpenSSL takes it
        context.load_verify_locations(capath=path)
        return
    fault = _authorities_fault(context, f"{setting}={path!r}", read_pem(setting, path, password))
    if fault is not None:
        raise ConfigError(fault)


def load_authority_text(context: ssl.SSLContext, setting: str, text: str) -> None:
    """Trust the authorities of a text.

    Args:
        context: Verifies by them.
        setting: Name of the setting, for errors.
        text: PEM.

    Raises:
        ConfigError: It has no certificate.
    """
    text = ascii_of(text)
    fault = pem_fault(text.encode())
    fault = f"{setting} {fault}" if fault else _authorities_fault(context, setting, text)
    if fault is not None:
        raise ConfigError(fault)


def _authorities_fault(context: ssl.SSLContext, source: str, pem: str) -> str | None:
    """Load them; returns a fault as text: with a wrong file, `pem` has a private key."""
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError as error:
        label = _LABEL.search(pem)
        if label is not None and label[1] != "CERTIFICATE":
            return f"{source} has no certificate that can be read; its first block is {label[1]!r}"
        return f"{source} has no certificate that can be read: {error}"
    return None


def _identify(context: ssl.SSLContext, config: SecurityConfig) -> None:
    """Load the client's certificate and key, if configured."""
    fault = _identity_fault(context, config)
    if fault is not None:
        raise ConfigError(fault)


def _identity_fault(context: ssl.SSLContext, config: SecurityConfig) -> str | None:
    """Load them; returns a fault as text, so that no frame of an exception contains a key."""
    if config.ssl_certfile is not None:
        path, password = config.ssl_certfile, config.ssl_password
        certificate, fault = pem_or_fault("ssl_certfile", path, password)
        if fault is not None or config.ssl_keyfile is None:
            return fault or _chain_fault(context, config, _Chain("ssl_certfile", certificate))
        key, fault = pem_or_fault("ssl_keyfile", config.ssl_keyfile)
        if fault is not None:
            return fault
        chain = _Chain("ssl_certfile", certificate, "ssl_keyfile", key)
    elif config.ssl_certdata is not None and config.ssl_keydata is not None:
        for name, text in (
            ("ssl_certdata", config.ssl_certdata),
            ("ssl_keydata", config.ssl_keydata.reveal()),
        ):
            fault = pem_fault(ascii_of(text).encode())
            if fault is not None:
                return f"{name} {fault}"
        certificate, key = ascii_of(config.ssl_certdata), ascii_of(config.ssl_keydata.reveal())
        chain = _Chain("ssl_certdata", certificate, "ssl_keydata", key)
    else:
        return None
    return _chain_fault(context, config, chain)


class _Chain(NamedTuple):
    """A certificate, its key, and the names of their settings."""

    certificate_setting: str
    certificate: str
    key_setting: str = ""
    key: str = ""


def _chain_fault(context: ssl.SSLContext, config: SecurityConfig, chain: _Chain) -> str | None:
    key_setting = chain.key_setting or chain.certificate_setting
    keys = chain.key or chain.certificate
    if "-----BEGIN CERTIFICATE-----" not in chain.certificate:
        return f"{chain.certificate_setting} has no certificate"
    if "PRIVATE KEY-----" not in keys:
        hint = "" if chain.key_setting else "; name its file in ssl_keyfile"
        return f"{key_setting} has no private key{hint}"
    is_encrypted = "ENCRYPTED" in keys
    if is_encrypted and config.ssl_password is None:
        return f"the key in {key_setting} is encrypted, and there is no ssl_password"
    reason = _load_chain(context, config, chain)
    return (
        None if reason is None else _unusable(chain, key_setting, reason, is_encrypted=is_encrypted)
    )


def _unusable(chain: _Chain, key_setting: str, reason: str, *, is_encrypted: bool) -> str:
    if reason in _MISMATCHES:
        return f"{key_setting} is not the key of {chain.certificate_setting}"
    if is_encrypted and reason.isupper():
        return f"{key_setting} cannot be decrypted with ssl_password"
    return f"{chain.certificate_setting} and {key_setting} cannot be used: {reason}"


def _load_chain(context: ssl.SSLContext, config: SecurityConfig, chain: _Chain) -> str | None:
    """Load them; returns OpenSSL's reason, in capitals, or that of something else."""

    def password() -> str:
        # Always given; otherwise OpenSSL would ask on the terminal.
        return config.ssl_password.reveal() if config.ssl_password is not None else ""

    try:
        with in_memory(f"{chain.key}\n{chain.certificate}") as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        return error.reason or "BLOCK_CUT_OFF_OR_DAMAGED"
    except (OSError, ValueError) as error:  # no descriptor, no /proc, or too long a password
        return str(error)
    return None


def _paths(config: SecurityConfig) -> Iterator[str]:
    for name in _FILES:
        path = getattr(config, name)
        if path is not None:
            yield path


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - a text, as the setting has it
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
