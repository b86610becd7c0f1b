"""Creates errors for TLS failures; the texts name the setting to change.

OpenSSL's texts change between versions, so errors are distinguished by type, code and reason; an
unknown one keeps OpenSSL's text.

Thread-safety: pure functions.
Source: RFC 8446 section 6.2 for alerts; X509_verify_cert_error_string(3) for codes.
"""

import ssl
from typing import NamedTuple

from kprod.config import SecurityConfig
from kprod.errors import ConnectionFailed, Disconnected, TlsFailed
from kprod.network.framing import guess_service
from kprod.peer_text import peer_text

_SELF_SIGNED, _SELF_SIGNED_IN_CHAIN, _UNKNOWN_ISSUER, _UNVERIFIABLE = 18, 19, 20, 21
_UNTRUSTED = frozenset({_SELF_SIGNED, _SELF_SIGNED_IN_CHAIN, _UNKNOWN_ISSUER, _UNVERIFIABLE})
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_WRONG_NAME = frozenset({62, 64})

_CERTIFICATE_WANTED = "the broker wants a client certificate: set ssl_certfile and ssl_keyfile"
_CERTIFICATE_REJECTED = (
    "the broker does not accept the client certificate: its authority is not one that the broker"
    " trusts, or it expired"
)
# Ends of the reasons of alerts that concern a client's certificate.
_ALERTS = (
    "BAD_CERTIFICATE",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
)
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})
_NOTHING_IN_COMMON = ("PROTOCOL_VERSION", "HANDSHAKE_FAILURE", "UNSUPPORTED_PROTOCOL")


class TlsPeer(NamedTuple):
    """The peer of a TLS connection, for texts.

    Attributes:
        address: The broker's address, `host:port`.
        host: The host name that its certificate must match.
        config: The client's settings.
    """

    address: str
    host: str
    config: SecurityConfig


def handshake_error(error: OSError, peer: TlsPeer, beginning: bytes) -> ConnectionFailed:
    """Create the error for a failed handshake.

    Args:
        error: The error of `ssl`.
        peer: The broker, and the security settings of the connection.
        beginning: The first bytes that the peer sent; empty for none.

    Returns:
        The error, to be raised.
    """
    said = f"cannot connect to broker {peer.address}: "
    if isinstance(error, ssl.SSLCertVerificationError):
        return _identity_error(said + _certificate_text(error, peer))
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return TlsFailed(
            f"{said}it closed the connection in the middle of the TLS handshake: is this a"
            " PLAINTEXT or SASL_PLAINTEXT listener?"
        )
    reason = getattr(error, "reason", None) or ""
    if reason in _NOT_TLS and beginning[:1] not in {b"\x15", b"\x16"}:
        shown = guess_service(beginning) or f"first bytes {beginning[:8].hex(' ')}"
        return TlsFailed(
            f"{said}it answered the TLS handshake with something else ({shown}); check the port in"
            " bootstrap_servers and whether the listener has TLS"
        )
    return _alert_error(said, error, peer)


def session_error(error: OSError, peer: TlsPeer) -> ConnectionFailed:
    """Create the error for the end of an established TLS session.

    Args:
        error: The error of `ssl`.
        peer: The broker, and the security settings of the connection.

    Returns:
        `TlsFailed` if the broker rejected the client's certificate, which it does after the
        handshake in TLS 1.3; otherwise `Disconnected`.
    """
    reason = getattr(error, "reason", None) or ""
    if reason.endswith(_ALERTS):
        return _alert_error(f"cannot connect to broker {peer.address}: ", error, peer)
    return Disconnected(f"the TLS session with {peer.address} is broken: {reason or error}")


def _alert_error(said: str, error: OSError, peer: TlsPeer) -> TlsFailed:
    reason = getattr(error, "reason", None) or ""
    if reason.endswith(_ALERTS):
        config = peer.config
        has_one = bool(config.ssl_certfile or config.ssl_certdata or config.ssl_context)
        return _identity_error(said + (_CERTIFICATE_REJECTED if has_one else _CERTIFICATE_WANTED))
    if any(name in reason for name in _NOTHING_IN_COMMON):
        ours = ", ".join(peer.config.ssl_enabled_protocols)
        ciphers = f"; ssl_ciphers={peer.config.ssl_ciphers}" if peer.config.ssl_ciphers else ""
        return TlsFailed(
            f"{said}no TLS version or cipher in common; ours: {ours}"
            f" (ssl_enabled_protocols){ciphers}"
        )
    return TlsFailed(f"{said}TLS failed: {peer_text(reason or str(error))}")


def _certificate_text(error: ssl.SSLCertVerificationError, peer: TlsPeer) -> str:
    code = error.verify_code
    if code in _UNTRUSTED:
        trusted = peer.config.ssl_cafile or ("ssl_cadata" if peer.config.ssl_cadata else "")
        where = f"ssl_cafile={trusted}" if peer.config.ssl_cafile else trusted or "the system's"
        return (
            "its certificate is not issued by a trusted authority"
            f" ({where}: {peer_text(error.verify_message)}); pass its authority's certificate as"
            " ssl_cafile"
        )
    if code == _EXPIRED:
        return "its certificate has expired; it must be renewed"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet; is this machine's clock right?"
    if code == _REVOKED:
        return "its certificate was revoked (ssl_crlfile)"
    if code in _WRONG_NAME:
        return (
            f"its certificate is not for {peer_text(peer.host)!r}; use a name of the certificate in"
            " bootstrap_servers, or in the broker's advertised.listeners"
        )
    return f"its certificate is rejected: {peer_text(error.verify_message)}"


def _identity_error(text: str) -> TlsFailed:
    failed = TlsFailed(text)
    failed.is_identity = True
    return failed
