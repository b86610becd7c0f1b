"""GSSAPI: Kerberos, by the system's library and its Python binding (the extra `kprod[gssapi]`).

Tickets come from a keytab, which the library reads and renews, or from the ticket cache of the
environment. `kinit` is not run.

Thread-safety: the login thread, one call at a time, since each may query the KDC.
Source: RFC 4752; Kafka's SaslClientAuthenticator (clients 4.3.1); python-gssapi 1.12.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kprod.config import SecurityConfig
from kprod.errors import AuthenticationFailed, ConfigError
from kprod.network.sasl.login import Login
from kprod.peer_text import peer_text

if TYPE_CHECKING:
    from types import ModuleType

_NO_LAYER = 1
_LAYER_BYTES = 4
_MESSAGE_BYTES_MAX = 64 << 10


def load_gssapi() -> "ModuleType":
    """Import the Python binding.

    Returns:
        The module.

    Raises:
        ConfigError: The binding or the system's library is not installed.
    """
    try:
        import gssapi  # noqa: PLC0415 - an extra
    except (ImportError, OSError) as error:
        raise ConfigError(
            "sasl_mechanism=GSSAPI needs the package gssapi and the system's Kerberos library:"
            f" pip install 'kprod[gssapi]' (libkrb5-dev, krb5-devel or krb5): {error}"
        ) from None
    found: ModuleType = gssapi
    return found


class GssLogin(Login):
    """The client side of one exchange."""

    __slots__ = ("_config", "_context", "_has_agreed", "_service")

    def __init__(self, config: SecurityConfig, host: str) -> None:
        """Start an exchange.

        Args:
            config: Settings with GSSAPI.
            host: The broker's host, as configured or advertised.
        """
        self._config = config
        host = config.sasl_kerberos_domain_name or host.removesuffix(".")
        self._service = f"{config.sasl_kerberos_service_name}@{host}"
        self._context: Any = None
        self._has_agreed = False

    def first(self) -> bytes:
        """See `Login`; queries the KDC for tickets."""
        gssapi = load_gssapi()
        flag = gssapi.RequirementFlag
        try:
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
                creds=self._credentials(gssapi),
                mech=gssapi.MechType.kerberos,
                # The broker proves itself, and the message on security layers cannot be changed.
                flags=[flag.mutual_authentication, flag.integrity, flag.out_of_sequence_detection],
                usage="initiate",
            )
            return self._context.step() or b""
        except gssapi.exceptions.GSSError as error:
            who = self._config.sasl_kerberos_principal or "the default principal"
            has_none = isinstance(error, gssapi.exceptions.MissingCredentialsError)
            raise AuthenticationFailed(
                f"Kerberos has no ticket of {who} for {self._service}: {peer_text(str(error))}"
                f"{self._advice() if has_none else ''}"
            ) from None

    def answer(self, challenge: bytes) -> bytes | None:
        """See `Login`; finally the broker offers security layers, of which none is used."""
        if self._has_agreed:
            if challenge:
                raise AuthenticationFailed("the broker went on after the login by GSSAPI was over")
            return None
        if len(challenge) > _MESSAGE_BYTES_MAX:
            raise AuthenticationFailed(f"the broker's message has {len(challenge)} bytes")
        gssapi = load_gssapi()
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._agree(self._context.unwrap(challenge).message)
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(
                f"Kerberos rejects the message of the broker {self._service}:"
                f" {peer_text(str(error))}"
            ) from None

    def _agree(self, offer: bytes) -> bytes:
        if len(offer) != _LAYER_BYTES:
            raise AuthenticationFailed(
                f"the broker offers security layers in {len(offer)} bytes instead of {_LAYER_BYTES}"
            )
        if not offer[0] & _NO_LAYER:
            raise AuthenticationFailed(
                "the broker wants to protect messages by GSSAPI; kprod does so by TLS only"
                " (security_protocol=SASL_SSL)"
            )
        self._has_agreed = True
        chosen = bytes([_NO_LAYER, 0, 0, 0])
        return bytes(self._context.wrap(chosen, False).message)  # noqa: FBT003 - not encrypted

    def _credentials(self, gssapi: Any) -> Any:  # noqa: ANN401 - the extra has few types
        config = self._config
        name = None
        if config.sasl_kerberos_principal is not None:
            name = gssapi.Name(config.sasl_kerberos_principal, gssapi.NameType.kerberos_principal)
        store = None
        if config.sasl_kerberos_keytab is not None:
            # Tickets are kept in memory, and renewed from the keytab in time.
            path = self._keytab_path()
            cache = f"MEMORY:kprod-{path}-{name}"
            store = {"client_keytab": f"FILE:{path}", "ccache": cache}
        if name is None and store is None:
            return None
        return gssapi.Credentials(name=name, usage="initiate", store=store)

    def _advice(self) -> str:
        """Say where the principal's key should be; the library names a cache that nobody set."""
        if self._config.sasl_kerberos_keytab is None:
            return "; set sasl_kerberos_keytab, or have kinit fill the ticket cache"
        path = self._keytab_path()
        if not Path(path).is_file():
            return f"; sasl_kerberos_keytab={path!r} is no file"
        return f"; sasl_kerberos_keytab={path!r} needs its current key"

    def _keytab_path(self) -> str:
        return str(self._config.sasl_kerberos_keytab).removeprefix("FILE:")
