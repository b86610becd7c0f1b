"""The users of an embedded cluster, with the keys that SCRAM stores instead of passwords.

An unknown user gets a salt and keys as well, derived from the name, so that a client cannot
distinguish it from a wrong password.

Thread-safety: the broker's thread.
Source: RFC 5802 section 3; Kafka's ScramFormatter (4.3) for passwords as they are, without
SASLprep.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

SCRAM_ITERATIONS = 4_096  # Kafka's minimum
_SALT_BYTES = 16


class ScramKeys(NamedTuple):
    """The keys that a server stores for a password.

    Attributes:
        salt: The salt.
        stored_key: The hash of the client key.
        server_key: Signs the server's last message.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes


class Credentials:
    """Users and passwords."""

    __slots__ = ("_keys", "_passwords", "_seed")

    def __init__(self, users: Mapping[str, str]) -> None:
        """Set the users.

        Args:
            users: Passwords by user name.
        """
        self._passwords = {name: text.encode() for name, text in users.items()}
        self._keys: dict[tuple[str, str], ScramKeys] = {}
        self._seed = secrets.token_bytes(_SALT_BYTES)

    def is_right(self, user: str, password: bytes) -> bool:
        """Compare a password in constant time; False for an unknown user."""
        known = self._passwords.get(user)
        wanted = self._seed if known is None else known
        return hmac.compare_digest(wanted, password) and known is not None

    def scram_keys(self, user: str, hash_name: str) -> ScramKeys:
        """Return a user's keys.

        Args:
            user: Any name.
            hash_name: `sha256` or `sha512`.

        Returns:
            The keys; those of an unknown user match no password.
        """
        found = self._keys.get((user, hash_name))
        if found is None:
            salt = hmac.digest(self._seed, user.encode(), hash_name)[:_SALT_BYTES]
            password = self._passwords.get(user)
            found = scram_keys(password or secrets.token_bytes(32), salt, hash_name)
            if password is not None:
                self._keys[user, hash_name] = found
        return found


def scram_keys(password: bytes, salt: bytes, hash_name: str) -> ScramKeys:
    """Derive the keys of a password."""
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, SCRAM_ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return ScramKeys(
        salt,
        hashlib.new(hash_name, client_key).digest(),
        hmac.digest(salted, b"Server Key", hash_name),
    )
