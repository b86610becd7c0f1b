"""PKCS#12 files, as Java's keytool and OpenSSL write them, turned into PEM text.

A truststore has certificates only; a keystore has a key, its certificate and the chain above it.
The extra `kprod[tls]` reads them.

Thread-safety: pure functions.
Source: RFC 7292; keytool (JDK 17), whose truststores mark their certificates as trusted.
"""

from kprod.secret import Secret

_CONVERT = (
    "Convert it: openssl pkcs12 -in OLD.p12 -out NEW.pem, or openssl x509 -inform der -in OLD.der"
    " -out NEW.pem"
)


def pem_of_pkcs12(content: bytes, password: Secret | None, setting: str) -> tuple[str, str | None]:
    """Read a PKCS#12 file.

    Args:
        content: The file's bytes.
        password: The file's password; None for none.
        setting: Name of the setting that has the password, for the fault.

    Returns:
        The certificates, and the key if there is one, in PEM, and no fault; or an empty text and a
        fault that completes a sentence. So no frame of an exception has the key.
    """
    try:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            Encoding,
            NoEncryption,
            PrivateFormat,
        )
        from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415
            load_pkcs12,
        )
    except ImportError:
        return "", (
            "is not PEM text; it looks like PKCS#12 or DER. PKCS#12 needs pip install"
            f" 'kprod[tls]'. {_CONVERT}"
        )
    try:
        found = load_pkcs12(content, None if password is None else password.reveal().encode())
    except ValueError:
        why = f"there is no {setting}" if password is None else f"{setting} does not open it"
        return "", f"is not PEM text; as PKCS#12 it cannot be read: {why}. {_CONVERT}"
    certificates = [*([found.cert] if found.cert else []), *found.additional_certs]
    pem = b"".join(it.certificate.public_bytes(Encoding.PEM) for it in certificates)
    if found.key is not None:
        pem = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem
    return pem.decode("ascii"), None if pem else "is a PKCS#12 file without certificates"
