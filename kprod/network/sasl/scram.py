"""SCRAM with SHA-256 and SHA-512: no message has the password, and the broker proves it knows it.

The password is used unchanged, in UTF-8. RFC 5802 requires normalization (SASLprep); Kafka does not
do it, and a client that does cannot log in with every password.

Thread-safety: one thread; `SaltedPasswords` two, the client's and the login thread.
Source: RFC 5802, RFC 7677; Kafka's ScramFormatter and ScramSaslClient (clients 4.3.1).
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from kprod.errors import AuthenticationFailed
from kprod.network.sasl.login import Login
from kprod.network.sasl.passwords import Password, present_password
from kprod.peer_text import peer_text

if TYPE_CHECKING:
    from kprod.secret import Secret

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4_096  # RFC 7677's minimum
ITERATIONS_MAX = 1_000_000  # some 0.4 s; limits the time a broker can cost this client
QUICK_ITERATIONS_MAX = 16_384  # some 7 ms; Kafka's maximum
MESSAGE_BYTES_MAX = 4_096
_SALTED_MAX = 8  # the brokers of a cluster use the same salt for a user
_SERVER_FIRST = re.compile(
    r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})(?:,[a-df-hj-lnopqt-uw-zA-Z]=[^,]*)*"
)
_SERVER_FINAL = re.compile(r"v=([A-Za-z0-9+/=]+)(?:,[a-zA-Z]=[^,]*)*")


class SaltedPasswords:
    """A cache of derived keys, so that further connections cost nothing."""

    __slots__ = ("_found", "_hash_name", "_of", "_password")

    def __init__(self, password: Password, hash_name: str) -> None:
        """Start with none.

        Args:
            password: The password, or a function that is called each time.
            hash_name: `sha256` or `sha512`.
        """
        self._password = password
        self._of: Secret | None = None  # the password that `_found` was derived from
        self._hash_name = hash_name
        self._found: dict[tuple[bytes, int], bytes] = {}

    def has(self, salt: bytes, iterations: int) -> bool:
        """Whether `salted` would return quickly.

        Args:
            salt: The broker's salt.
            iterations: Any number.

        Returns:
            True for few iterations, and for cached keys.
        """
        return iterations <= QUICK_ITERATIONS_MAX or (salt, iterations) in self._found

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """Derive a key; the first time this takes 2 ms for each 4,096 iterations.

        Args:
            salt: The broker's salt.
            iterations: A number within the bounds.

        Returns:
            The salted password.

        Raises:
            AuthenticationFailed: The password function failed.
        """
        password = present_password(self._password)
        if password != self._of:
            self._found, self._of = {}, password
        found = self._found.get((salt, iterations))
        if found is None:
            if len(self._found) >= _SALTED_MAX:
                self._found.clear()
            found = hashlib.pbkdf2_hmac(
                self._hash_name, password.reveal().encode(), salt, iterations
            )
            self._found[salt, iterations] = found
        return found

    def forget(self) -> None:
        """Discard the cached keys."""
        self._found, self._of = {}, None

    def __repr__(self) -> str:
        """Omit the keys."""
        return f"<{type(self).__name__}>"


class ScramLogin(Login):
    """The client side of one exchange."""

    __slots__ = ("_bare", "_hash_name", "_nonce", "_passwords", "_signature")

    def __init__(
        self,
        user: str,
        mechanism: str,
        passwords: SaltedPasswords,
        *,
        nonce: str,
        is_token: bool = False,
    ) -> None:
        """Start an exchange.

        Args:
            user: The user that logs in.
            mechanism: A key of `SCRAM_HASHES`.
            passwords: Derived keys for the mechanism's hash.
            nonce: A printable text without commas, never used before.
            is_token: Whether user and password are a delegation token's id and its HMAC (KIP-48).
        """
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}{',tokenauth=true' if is_token else ''}"
        self._nonce = nonce
        self._hash_name = SCRAM_HASHES[mechanism]
        self._passwords = passwords
        self._signature: bytes | None = None  # the signature that the broker must send

    def may_block(self, challenge: bytes | None) -> bool:
        """Whether creating the next message may take long.

        Args:
            challenge: The broker's message; None before the first.

        Returns:
            True for many iterations whose key is not cached.
        """
        if challenge is None or self._signature is not None or len(challenge) > MESSAGE_BYTES_MAX:
            return False
        match = _SERVER_FIRST.fullmatch(challenge.decode(errors="replace"))
        try:
            return match is not None and not self._passwords.has(_decoded(match[2]), int(match[3]))
        except AuthenticationFailed:
            return False

    def first(self) -> bytes:
        """See `Login`."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """See `Login`."""
        text = _text(challenge)
        if self._signature is None:
            return self._prove(text)
        self._verify(text, self._signature)
        return None

    def _prove(self, server_first: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            raise _broken("its first message is not one of SCRAM")
        nonce, salt, iterations = match[1], _decoded(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise _broken("its nonce does not continue this client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise _broken(
                f"it asks for {iterations} iterations; kprod does {ITERATIONS_MIN} to"
                f" {ITERATIONS_MAX}"
            )
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{server_first},{without_proof}".encode()
        salted = self._passwords.salted(salt, iterations)
        self._signature = self._mac(self._mac(salted, b"Server Key"), signed)
        client_key = self._mac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        pairs = zip(client_key, self._mac(stored_key, signed), strict=True)
        proof = base64.b64encode(bytes(a ^ b for a, b in pairs)).decode()
        return f"{without_proof},p={proof}".encode()

    def _verify(self, server_final: str, signature: bytes) -> None:
        if server_final.startswith("e="):
            raise AuthenticationFailed(
                f"the broker rejected the login: {peer_text(server_final[2:])}"
            )
        match = _SERVER_FINAL.fullmatch(server_final)
        if match is None:
            raise _broken("it did not prove that it knows the password")
        if not hmac.compare_digest(_decoded(match[1]), signature):
            raise _broken("its proof that it knows the password is wrong")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash_name)


def _text(challenge: bytes) -> str:
    if len(challenge) > MESSAGE_BYTES_MAX:
        raise _broken(f"its message has {len(challenge)} bytes, more than {MESSAGE_BYTES_MAX}")
    try:
        return challenge.decode()
    except UnicodeDecodeError:
        raise _broken("its message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _broken("its message has malformed base64") from None


def _broken(why: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"the broker cannot be trusted with this login: {why}")
