"""The embedded cluster's certificate authority, created on first use.

One authority serves all clusters of a process, so that their clients trust each other's
certificates. Its key stays in memory. Issued keys are in PKCS#8, because Java reads no other form
of PEM.

Thread-safety: any thread.
Source: trustme 1.2 for the certificates; RFC 5208 for PKCS#8.
"""

import contextlib
import functools
import os
import ssl
import tempfile
import threading
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kprod.broker.security.broker_security import BrokerSecurity
from kprod.clock import SystemClock

try:
    import trustme
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
except ImportError as error:  # pragma: no cover - the tests' environment has both
    raise ImportError(
        "an embedded cluster with TLS makes certificates with trustme, which is not installed;"
        " install it with kprod's extra: pip install 'kprod[testing]'"
    ) from error

_DAY = timedelta(days=1)
_lock = threading.Lock()  # guards the creation of the authority


class ClientCertificate(NamedTuple):
    """A client's certificate and private key.

    Attributes:
        certificate_pem: The certificate with its chain.
        key_pem: The private key, unencrypted, in PKCS#8.
    """

    certificate_pem: str
    key_pem: str

    def __repr__(self) -> str:
        """Omit the private key."""
        return "ClientCertificate(certificate_pem=…, key_pem=***)"


class Authority:
    """Issues certificates."""

    __slots__ = ("_ca",)

    def __init__(self) -> None:
        """Create a key and its certificate."""
        self._ca = trustme.CA(organization_name="kprod embedded cluster")

    @property
    def pem(self) -> str:
        """The authority's certificate, which clients trust."""
        return self._ca.cert_pem.bytes().decode()

    def client_certificate(self, user: str) -> ClientCertificate:
        """Issue a certificate for a client.

        Args:
            user: The certificate's common name.

        Returns:
            The certificate and its key.
        """
        issued = self._ca.issue_cert(f"{user}@kprod.test", common_name=user)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return ClientCertificate(chain.decode(), _pkcs8(issued.private_key_pem.bytes()).decode())

    def server_context(self, security: BrokerSecurity) -> ssl.SSLContext:
        """Create the TLS context for the brokers of one cluster.

        Args:
            security: Names and validity of the certificate, and whether clients need one.

        Returns:
            A server-side context.
        """
        now = datetime.fromtimestamp(SystemClock().timestamp_ms() // 1_000, UTC)
        not_before, not_after = {
            "now": (None, None),
            "expired": (now - 2 * _DAY, now - _DAY),
            "not yet": (now + _DAY, now + 2 * _DAY),
        }[security.certificate_valid]
        issued = self._ca.issue_cert(
            *security.certificate_hosts, not_before=not_before, not_after=not_after
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with _key_file(issued.private_key_and_cert_chain_pem.bytes()) as path:
            context.load_cert_chain(path)
        context.verify_mode = {
            "none": ssl.CERT_NONE,
            "optional": ssl.CERT_OPTIONAL,
            "required": ssl.CERT_REQUIRED,
        }[security.client_certificates]
        if security.client_certificates != "none":
            context.load_verify_locations(cadata=self.pem)
        return context


def authority() -> Authority:
    """Return the authority of this process."""
    with _lock:
        return _authority()


@functools.cache
def _authority() -> Authority:
    return Authority()


def _pkcs8(key_pem: bytes) -> bytes:
    key = load_pem_private_key(key_pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@contextlib.contextmanager
def _key_file(pem: bytes) -> Generator[str]:
    """Provide a key to OpenSSL, which only reads files, without writing it to disk if possible."""
    if not hasattr(os, "memfd_create"):  # pragma: no cover - not on Linux
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("kprod-key")
    try:
        os.write(descriptor, pem)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
