"""Certificates from files and texts, and files that change."""

import json
import os
import ssl
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from kprod import Producer
from kprod.broker import BrokerSecurity
from kprod.broker.security.authority import Authority
from kprod.config import SecurityConfig
from kprod.errors import ConfigError
from kprod.network.tls_context import TlsContext, make_context

CA = Authority()
ALICE = CA.client_certificate("alice")
BOB = CA.client_certificate("bob")
PASSWORD = "correct horse"  # noqa: S105 - of a key made above
KEY = load_pem_private_key(ALICE.key_pem.encode(), password=None)
ENCRYPTED = KEY.private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
).decode()


def parsed(**settings: Any) -> SecurityConfig:
    """A configuration with TLS."""
    return SecurityConfig.parse({"security_protocol": "SSL", **settings})


def written(tmp_path: Path, **texts: str) -> dict[str, str]:
    """Files with these texts, by the settings that name them."""
    for name, text in texts.items():
        (tmp_path / f"{name}.pem").write_text(text)
    return {name: str(tmp_path / f"{name}.pem") for name in texts}


def test_defaults_are_strict() -> None:
    """Brokers and their names are checked, in TLS 1.2 and 1.3."""
    context = make_context(parsed())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("form", ["one file", "two files", "encrypted", "texts"])
def test_a_key_in_every_form(tmp_path: Path, form: str) -> None:
    """All are taken."""
    chain = ALICE.certificate_pem
    files = {
        "one file": {"ssl_certfile": ALICE.key_pem + chain},
        "two files": {"ssl_certfile": chain, "ssl_keyfile": ALICE.key_pem},
        "encrypted": {"ssl_certfile": chain, "ssl_keyfile": ENCRYPTED},
    }.get(form, {})
    settings = {"ssl_password": PASSWORD} if form in {"encrypted", "texts"} else {}
    if form == "texts":
        settings |= {"ssl_certdata": chain, "ssl_keydata": ENCRYPTED}
    context = make_context(parsed(**settings, **written(tmp_path, ssl_cafile=CA.pem, **files)))
    assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    ("texts", "settings", "rejection"),
    [
        (
            {"ssl_certfile": ALICE.certificate_pem, "ssl_keyfile": BOB.key_pem},
            {},
            "ssl_keyfile is not the key of ssl_certfile",
        ),
        (
            {"ssl_certfile": ALICE.certificate_pem, "ssl_keyfile": ENCRYPTED},
            {},
            "the key in ssl_keyfile is encrypted, and there is no ssl_password",
        ),
        (
            {"ssl_certfile": ALICE.certificate_pem, "ssl_keyfile": ENCRYPTED},
            {"ssl_password": "wrong-secret"},
            "ssl_keyfile cannot be decrypted with ssl_password",
        ),
        ({"ssl_certfile": ALICE.certificate_pem}, {}, "has no private key; name its file"),
        ({"ssl_certfile": ALICE.key_pem}, {}, "ssl_certfile has no certificate"),
        ({"ssl_cafile": "hello"}, {}, "is not PEM text"),
        ({"ssl_cafile": "-----BEGIN CERTIFICATE-----\nx\n"}, {}, "has no certificate that can"),
        ({"ssl_cafile": ALICE.key_pem}, {}, "its first block is 'PRIVATE KEY'"),
        (
            {"ssl_certfile": ALICE.certificate_pem, "ssl_keyfile": ALICE.key_pem[:150]},
            {},
            "ssl_certfile and ssl_keyfile cannot be used: BLOCK_CUT_OFF_OR_DAMAGED",
        ),
        (
            {"ssl_certfile": ALICE.certificate_pem, "ssl_keyfile": ENCRYPTED},
            {"ssl_password": "x" * 2_000},
            "password cannot be longer than 1024 bytes",
        ),
        ({}, {"ssl_cafile": "/dev/null"}, "is not a regular file"),
        ({}, {"ssl_cafile": "/no/\ud800"}, "cannot be written in the file system's encoding"),
        ({"ssl_crlfile": ALICE.key_pem}, {}, "has no list of revoked certificates"),
        ({}, {"ssl_cafile": "/no/such/file"}, "cannot be read: No such file or directory"),
        ({}, {"ssl_ciphers": "TLS_RSA_NOTHING"}, "names no cipher that OpenSSL has"),
    ],
)
def test_a_mistake_is_told_where_the_producer_is_made(
    tmp_path: Path, texts: dict[str, str], settings: dict[str, str], rejection: str
) -> None:
    """The text names the setting, and never shows a key or a password."""
    security: dict[str, Any] = {"security_protocol": "SSL", **settings}
    security |= written(tmp_path, **texts)
    with pytest.raises(ConfigError, match=rejection) as caught:
        Producer(bootstrap_servers="127.0.0.1:1", **security).close()
    assert "PRIVATE KEY-----\n" not in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


def test_no_key_is_in_a_traceback_with_locals() -> None:
    """Whatever is wrong with it: it is in no frame of the error."""
    for key in ("no PEM: canary", f"{ALICE.key_pem}canary", f"{ENCRYPTED}canary"):
        config = parsed(ssl_certdata=BOB.certificate_pem, ssl_keydata=key)
        with pytest.raises(ConfigError, match="ssl_keydata") as caught:
            make_context(config)
        assert caught.value.__traceback__ is not None
        below = caught.value.with_traceback(caught.value.__traceback__.tb_next)
        shown = traceback.TracebackException.from_exception(below, capture_locals=True)
        text = "".join(shown.format())
        assert "SecurityConfig(" in text  # locals are shown
        assert "canary" not in text
        assert key[-100:] not in text


@pytest.mark.parametrize(
    "files",
    [
        {"ssl_cafile": ALICE.key_pem},
        {"ssl_certfile": ALICE.key_pem + ALICE.certificate_pem, "ssl_keyfile": "no PEM"},
        {"ssl_certfile": ALICE.key_pem},
    ],
)
def test_no_key_of_a_file_is_in_a_traceback_with_locals(
    tmp_path: Path, files: dict[str, str]
) -> None:
    """Also where the file was named in another setting, or another one has the fault."""
    with pytest.raises(ConfigError) as caught:
        make_context(parsed(**written(tmp_path, **files)))
    assert caught.value.__traceback__ is not None
    below = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    shown = traceback.TracebackException.from_exception(below, capture_locals=True)
    text = "".join(shown.format())
    assert "SecurityConfig(" in text  # locals are shown
    assert ALICE.key_pem.splitlines()[1] not in text


@pytest.mark.parametrize("comment", ["für alle", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_comments_beside_the_blocks_may_have_any_encoding(
    tmp_path: Path, comment: str, encoding: str
) -> None:
    """Bundles of authorities name them in their own languages."""
    comment = comment if encoding == "utf-8" else "für alle"
    path, own = tmp_path / "authorities.pem", tmp_path / "own.pem"
    separator = "" if comment == "\ufeff" else "\n"
    path.write_bytes(f"{comment}{separator}{CA.pem}".encode(encoding))
    own.write_bytes(f"{comment}\n{ALICE.key_pem}{ALICE.certificate_pem}".encode(encoding))
    context = make_context(parsed(ssl_cafile=str(path), ssl_certfile=str(own)))
    assert context.cert_store_stats()["x509_ca"] == 1
    context = make_context(parsed(ssl_cadata=f"{comment}\n{CA.pem}"))
    assert context.cert_store_stats()["x509_ca"] == 1


def packed(password: bytes | None, *, is_truststore: bool) -> bytes:
    """A PKCS#12 file with alice's key and chain, or with the authority alone."""
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    authorities = load_pem_x509_certificates(CA.pem.encode())
    if is_truststore:
        return serialize_key_and_certificates(None, None, None, authorities, encryption)
    own, *above = load_pem_x509_certificates(ALICE.certificate_pem.encode())
    assert isinstance(KEY, EllipticCurvePrivateKey)
    return serialize_key_and_certificates(b"alice", KEY, own, above, encryption)


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_pkcs12_is_read(tmp_path: Path, password: str | None) -> None:
    """A truststore and a keystore, each with its password or without one; told by first bytes."""
    secret = None if password is None else password.encode()
    trust, own = tmp_path / "trust.p12", tmp_path / "own.p12"
    trust.write_bytes(packed(secret, is_truststore=True))
    own.write_bytes(packed(secret, is_truststore=False))
    settings = {"ssl.truststore.location": str(trust), "ssl.keystore.location": str(own)}
    if password is not None:
        settings |= {"ssl.truststore.password": password, "ssl.keystore.password": password}
    wanted = BrokerSecurity(protocol="SSL", client_certificates="required")
    context = make_context(parsed(**settings))
    assert context.cert_store_stats()["x509_ca"] == 1
    server = CA.server_context(wanted)
    assert common_name(context, server) == "alice"


def common_name(client_context: ssl.SSLContext, server_context: ssl.SSLContext) -> str:
    """Shake hands in memory; returns the name in the certificate that the client shows."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(down, up, server_hostname="localhost")
    server = server_context.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for end in (client, server):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    shown: Any = server.getpeercert()
    return str(dict(pair for part in shown["subject"] for pair in part)["commonName"])


@pytest.mark.parametrize(
    ("setting", "password", "why"),
    [
        ("ssl_cafile", None, "there is no ssl_truststore_password"),
        ("ssl_cafile", "canary-of-a-store", "ssl_truststore_password does not open it"),
        ("ssl_certfile", None, "there is no ssl_password"),
        ("ssl_certfile", "canary-of-a-store", "ssl_password does not open it"),
    ],
)
def test_a_pkcs12_file_that_cannot_be_opened(
    tmp_path: Path, setting: str, password: str | None, why: str
) -> None:
    """The text names the file, and the setting that has its password."""
    path = tmp_path / "store.p12"
    path.write_bytes(packed(PASSWORD.encode(), is_truststore=setting == "ssl_cafile"))
    name = "ssl_truststore_password" if setting == "ssl_cafile" else "ssl_password"
    settings = {setting: str(path)} | ({} if password is None else {name: password})
    with pytest.raises(ConfigError, match=why) as caught:
        make_context(parsed(**settings))
    assert str(path) in str(caught.value)


def test_pkcs12_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text has its name, and the command that does without."""
    path = tmp_path / "store.p12"
    path.write_bytes(packed(None, is_truststore=True))
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigError, match=r"pip install 'kprod\[tls\]'.*openssl pkcs12"):
        make_context(parsed(ssl_cafile=str(path)))


@pytest.mark.parametrize(
    ("content", "way_out"),
    [(b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"), (b"0\x82\x09", "openssl pkcs12")],
)
def test_a_keystore_of_javas_is_named(tmp_path: Path, content: bytes, way_out: str) -> None:
    """By its first bytes; the text has the command that converts it."""
    path = tmp_path / "store"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=way_out):
        make_context(parsed(ssl_cafile=str(path)))


OPENS = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args) if event == "open" else None)
from kprod.config import SecurityConfig
from kprod.network.tls_context import make_context
texts = json.load(sys.stdin)
del opened[:]
make_context(SecurityConfig.parse({"security_protocol": "SSL", **texts}))
named = [(path, flags) for path, _, flags in opened if not isinstance(path, int)]
print(json.dumps([str(path) for path, flags in named if flags & os.O_CREAT]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file is made, and unlinked")
def test_a_key_is_written_to_no_file() -> None:
    """Python tells an audit hook of each file that it opens: none is created for the key."""
    texts = {"ssl_cadata": CA.pem, "ssl_certdata": ALICE.certificate_pem, "ssl_keydata": ENCRYPTED}
    done = subprocess.run(
        [sys.executable, "-c", OPENS],
        input=json.dumps({**texts, "ssl_password": PASSWORD}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def source_in(directory: Path) -> tuple[TlsContext, Path]:
    """A source of contexts from files, and the file with the key and its certificate."""
    own = ALICE.key_pem + ALICE.certificate_pem
    files = written(directory, ssl_cafile=CA.pem, ssl_certfile=own)
    return TlsContext(parsed(**files)), Path(files["ssl_certfile"])


def test_a_file_that_changes_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For the next connection; while it is half written or gone, the old one stays in use."""
    source, path = source_in(tmp_path)
    first = source.current()
    assert source.current() is first

    path.write_text(ALICE.key_pem, encoding="utf-8")
    assert source.current() is first
    path.unlink()
    assert source.current() is first
    assert caplog.text.count("changed certificates are not used yet") == 2
    path.write_text(BOB.key_pem + BOB.certificate_pem, encoding="utf-8")
    second = source.current()
    assert second is not first
    assert source.current() is second


def test_a_changed_file_that_cannot_be_used_ends_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe without a writer, and errors of the operating system: the old one stays in use."""
    source, path = source_in(tmp_path)
    first = source.current()
    path.unlink()
    os.mkfifo(path)
    assert source.current() is first
    path.unlink()
    path.write_text(BOB.key_pem + BOB.certificate_pem, encoding="utf-8")

    def no_descriptor(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "memfd_create", no_descriptor, raising=False)
        patched.setattr("tempfile.NamedTemporaryFile", no_descriptor)
        assert source.current() is first
    with monkeypatch.context() as patched:
        patched.setattr("kprod.network.tls_context.make_context", no_descriptor)
        assert source.current() is first
    assert source.current() is not first


def test_the_applications_own_context_is_left_alone() -> None:
    """It is used as it is."""
    own = ssl.create_default_context(cadata=CA.pem)
    before = (own.verify_mode, own.check_hostname, own.options, own.minimum_version)
    assert TlsContext(parsed(ssl_context=own)).current() is own
    assert (own.verify_mode, own.check_hostname, own.options, own.minimum_version) == before
