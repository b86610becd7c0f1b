"""Files of certificates and keys: what they are by their first bytes, and their text.

Everything is read here, once, so that the checked files are the used ones; OpenSSL gets texts.
If it accepts only a path, it gets that of a file in memory (`in_memory`).

PEM is ASCII; the comments between its blocks may have any encoding, and are left out where they are
not ASCII, since OpenSSL rejects them.

Thread-safety: pure functions.
Source: RFC 7468 for PEM; JKS and PKCS#12 as keytool (JDK 17) writes them; memfd_create(2).
"""

import contextlib
import os
import tempfile
from collections.abc import Generator

from kprod.config.pkcs12 import pem_of_pkcs12
from kprod.errors import ConfigError
from kprod.regular_file import open_regular
from kprod.secret import Secret

FILE_BYTES_MAX = 16 << 20  # the system's own authorities are a quarter of a megabyte
_JKS = bytes.fromhex("fe ed fe ed")
_DER_SEQUENCE = 0x30
_PASSWORDS = {"ssl_cafile": "ssl_truststore_password", "ssl_certfile": "ssl_password"}


def read_pem(setting: str, path: str, password: Secret | None = None) -> str:
    """Read a file of PEM text, or of PKCS#12.

    Args:
        setting: Name of the setting that has the path, for errors.
        path: The file's path.
        password: The password of a PKCS#12 file; None for none.

    Returns:
        Its text; of PKCS#12, the same as PEM, and its key without a password.

    Raises:
        ConfigError: It cannot be read, or is something else.
    """
    text, fault = pem_or_fault(setting, path, password)
    if fault is not None:
        raise ConfigError(fault)
    return text


def pem_or_fault(setting: str, path: str, password: Secret | None = None) -> tuple[str, str | None]:
    """Read a file as `read_pem` does, for a caller that has a key among its locals.

    Args:
        setting: See `read_pem`.
        path: See there.
        password: See there.

    Returns:
        The text, and no fault; or an empty text, and the text of the error.
    """
    text, fault = _read(setting, path, password)
    return text, None if fault is None else f"{setting}={path!r} {fault}"


def _read(setting: str, path: str, password: Secret | None) -> tuple[str, str | None]:
    """Read a text, or a fault: what raises an error has no key among its locals."""
    try:
        with open_regular(path) as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return "", f"cannot be read: {error.strerror or error}"
    if len(content) > FILE_BYTES_MAX:
        return "", f"has more than {FILE_BYTES_MAX} bytes"
    if content[:1] == bytes([_DER_SEQUENCE]) and setting in _PASSWORDS:
        return pem_of_pkcs12(content, password, _PASSWORDS[setting])
    fault = pem_fault(content)
    return ("" if fault else content.decode("ascii", errors="ignore")), fault


def ascii_of(text: str) -> str:
    """Leave out the characters that are not ASCII, as `read_pem` does.

    Args:
        text: A PEM text.

    Returns:
        The same blocks.
    """
    return text.encode("ascii", errors="ignore").decode("ascii")


def pem_fault(content: bytes) -> str | None:
    """Say why a text is not PEM.

    Args:
        content: The bytes; they are never shown.

    Returns:
        A description of the file's content that completes a sentence; None for PEM text.
    """
    if b"-----BEGIN " in content:
        return None
    if content.startswith(_JKS):
        return (
            "is a Java keystore (JKS), which only Java reads. Convert it: keytool -importkeystore"
            " -srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12; then openssl pkcs12"
            " -in NEW.p12 -out NEW.pem"
        )
    if content[:1] == bytes([_DER_SEQUENCE]):
        return (
            "is not PEM text; it looks like PKCS#12 or DER. Convert it: openssl pkcs12 -in OLD.p12"
            " -out NEW.pem, or openssl x509 -inform der -in OLD.der -out NEW.pem"
        )
    return "is not PEM text: it has no line '-----BEGIN …-----'"


@contextlib.contextmanager
def in_memory(text: str) -> Generator[str]:
    """Show a text as a file that is on no disk.

    Args:
        text: Certificates and keys.

    Yields:
        A path, good within the context.
    """
    content = text.encode()
    if not hasattr(os, "memfd_create"):  # pragma: no cover - not on Linux
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("kprod-pem", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
