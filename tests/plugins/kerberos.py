"""A Kerberos realm of the tests: MIT's KDC on loopback, all of its files in a temporary directory.

Nothing outlives the run, and nothing of the system's own Kerberos is read or written: the programs
and the library find the realm by `KRB5_CONFIG` and `KRB5_KDC_PROFILE` alone. A small shell process
holds the other end of a pipe, as for Kafka's nodes, and ends the KDC with this process.

The packages are Debian's `krb5-kdc`, `krb5-admin-server` and `krb5-user`; kprod's side needs the
Python package `gssapi`, which `make kerberos` builds. Where they are missing the tests are skipped
with the reason, unless `KPROD_REQUIRE_KERBEROS=1`: then they fail.

Thread-safety: one thread at a time.
Source: krb5.conf(5), kdc.conf(5), kadmin(1), krb5kdc(8) and kinit(1) of MIT Kerberos 1.20.
"""

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import pytest

from tests.plugins.kafka_nodes import WATCH
from tests.plugins.kafka_settings import PortLease

REALM = "KPROD.TEST"
SERVICE = "kafka/localhost"
REQUIRE = "KPROD_REQUIRE_KERBEROS"
START_TIMEOUT_S = 30.0
TOOL_TIMEOUT_S = 60.0
PAUSE_S = 0.02
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

_CLIENTS = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
 default_ccache_name = FILE:{directory}/no-tickets
{more}
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  max_life = 1h
 }}
[logging]
 kdc = FILE:{directory}/kdc.log
"""


class KerberosFailedError(Exception):
    """A program of Kerberos failed, or the KDC was not ready in time."""


def missing_parts() -> str | None:
    """Say why no realm can be made here.

    Returns:
        The missing programs or the missing package; None if all is there.
    """
    programs = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if programs:
        return f"no {' and no '.join(programs)}: install krb5-kdc, krb5-admin-server and krb5-user"
    try:
        importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        return f"no Python package gssapi: run make kerberos ({error})"
    return None


def require(missing: str) -> NoReturn:
    """Skip a test for a missing program or package, or fail it where it must run.

    Args:
        missing: The missing part, and how to get it.
    """
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{REQUIRE}=1, but Kerberos cannot be tested: {missing}")
    pytest.skip(missing)


class Realm:
    """A KDC with its principals.

    Attributes:
        directory: All of its files.
        environment: Variables by which programs and the library find the realm.

    Thread-safety: one thread at a time.
    """

    def __init__(self) -> None:
        """Choose a port and write the settings; nothing runs yet."""
        self.directory = Path(tempfile.mkdtemp(prefix="kprod-realm-"))
        self._lease = PortLease(1)
        self._kdc: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self.write_settings("krb5.conf")
        server = _SERVER.format(realm=REALM, directory=self.directory, port=self._lease.ports[0])
        (self.directory / "kdc.conf").write_text(server, "utf-8")
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
        }

    def __enter__(self) -> Self:
        """Make the database, and start the KDC.

        Returns:
            Itself.
        """
        try:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", WATCH, "kprod-realm-watch", str(self.directory)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-tests")
            self.administer(f"addprinc -randkey {SERVICE}")
            self._start_kdc()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the KDC, and remove its directory."""
        self.close()

    def close(self) -> None:
        """End the KDC, and remove its directory; calling it again does nothing."""
        self._end_kdc()
        if self._watch is not None and self._watch.stdin is not None:
            self._watch.stdin.close()
            self._watch.wait()
            self._watch = None
        shutil.rmtree(self.directory, ignore_errors=True)
        self._lease.close()

    def write_settings(self, name: str, more: str = "") -> Path:
        """Write settings for clients.

        Args:
            name: Name of the file.
            more: Further lines of its section `libdefaults`.

        Returns:
            The file, a value for `KRB5_CONFIG`.
        """
        path = self.directory / name
        text = _CLIENTS.format(
            realm=REALM, directory=self.directory, port=self._lease.ports[0], more=more
        )
        path.write_text(text, "utf-8")
        return path

    def administer(self, *commands: str) -> str:
        """Run commands of kadmin.

        Args:
            commands: Each a line.

        Returns:
            Its output.
        """
        return self.run("kadmin.local", "-r", REALM, given="".join(f"{it}\n" for it in commands))

    def keytab(self, principal: str, *, options: str = "") -> Path:
        """Make a principal, and write its keys.

        Args:
            principal: Its name, without the realm.
            options: Options of kadmin's `addprinc`, such as a lifetime.

        Returns:
            A keytab.
        """
        path = self.keytab_path(principal)
        self.administer(f"addprinc -randkey {options} {principal}", f"ktadd -k {path} {principal}")
        return path

    def keytab_path(self, principal: str) -> Path:
        """Give the place of a principal's keytab, which need not exist."""
        return self.directory / f"{principal.replace('/', '-')}.keytab"

    def tickets(self, principal: str, *, life: str = "1h") -> str:
        """Fetch tickets by `kinit`.

        Args:
            principal: One with a keytab.
            life: Lifetime of the tickets, in kinit's form.

        Returns:
            The ticket cache, a value for `KRB5CCNAME`.
        """
        cache = f"FILE:{self.directory / f'{principal}-{life}.tickets'}"
        keytab = str(self.keytab_path(principal))
        self.run("kinit", "-l", life, "-k", "-t", keytab, "-c", cache, f"{principal}@{REALM}")
        return cache

    def run(self, program: str, *arguments: str, given: str = "") -> str:
        """Run a program of Kerberos in this realm.

        Args:
            program: Its name.
            arguments: Its arguments.
            given: Its standard input.

        Returns:
            Its output.

        Raises:
            KerberosFailedError: Its exit code was not 0.
        """
        found = shutil.which(program, path=_PATH)
        done = subprocess.run(
            [str(found), *arguments],
            env={**os.environ, **self.environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        said = done.stdout + done.stderr
        if done.returncode:
            raise KerberosFailedError(f"{program} gave exit code {done.returncode}:\n{said}")
        return said

    def _start_kdc(self) -> None:
        found = shutil.which("krb5kdc", path=_PATH)
        with (self.directory / "kdc.out").open("ab") as out:
            self._kdc = subprocess.Popen(
                [str(found), "-n"],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell_watch([self._kdc.pid])
        address = ("127.0.0.1", self._lease.ports[0])
        deadline_s = time.monotonic() + START_TIMEOUT_S  # noqa: TID251 - processes live in real time
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(address, PAUSE_S).close()
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._kdc.wait(PAUSE_S)
            if self._kdc.poll() is not None or time.monotonic() > deadline_s:  # noqa: TID251 - as above
                said = (self.directory / "kdc.out").read_text("utf-8", "replace")
                raise KerberosFailedError(f"the KDC does not answer at {address}:\n{said}")

    def _end_kdc(self) -> None:
        if self._kdc is not None:
            self._kdc.kill()
            self._kdc.wait()
            self._kdc = None
            self._tell_watch([])

    def _tell_watch(self, pids: Sequence[int]) -> None:
        if self._watch is not None and self._watch.stdin is not None:
            self._watch.stdin.write(f"{' '.join(map(str, pids))}\n".encode())
            self._watch.stdin.flush()


@pytest.fixture(scope="session")
def kerberos_realm() -> Generator[Realm]:
    """A realm with the service of the tests' brokers and the user alice.

    Yields:
        It, with its KDC.
    """
    missing = missing_parts()
    if missing is not None:
        require(missing)
    with Realm() as realm:
        realm.administer(f"ktadd -k {realm.keytab_path(SERVICE)} {SERVICE}")
        realm.keytab("alice")
        yield realm


@pytest.fixture
def in_realm(kerberos_realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Realm:
    """Let the Kerberos library of this process use the realm, and no tickets of anybody else.

    Returns:
        The realm.
    """
    for name, value in kerberos_realm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos_realm.directory}/no-tickets")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    return kerberos_realm
