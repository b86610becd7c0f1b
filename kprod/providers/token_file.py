"""Tokens from a file that something else keeps new, as Kubernetes does with a projected token.

Thread-safety: any thread.
Source: Kubernetes' projected service account tokens; KIP-1139 for tokens from files.
"""

from dataclasses import dataclass

from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token
from kprod.regular_file import open_regular
from kprod.secret import Secret

TOKEN_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Reads a file for each token.

    Attributes:
        path: Path of a file with one token and white space.
    """

    path: str

    def token(self) -> Token:
        """Read the file.

        Returns:
            Its token.

        Raises:
            AuthenticationFailed: It cannot be read, or has too many bytes.
        """
        try:
            with open_regular(self.path) as file:
                content = file.read(TOKEN_BYTES_MAX + 1)
        except OSError as error:
            raise AuthenticationFailed(
                f"the token file {self.path!r} cannot be read: {error.strerror or error}"
            ) from None
        if len(content) > TOKEN_BYTES_MAX:
            raise AuthenticationFailed(
                f"the token file {self.path!r} has more than {TOKEN_BYTES_MAX} bytes"
            )
        return Token(Secret(content.decode("ascii", errors="replace").strip()))


def token_file(path: str) -> TokenFile:
    """Make a provider that reads a file.

    Args:
        path: Path of a file with one token; it is read for each token.

    Returns:
        A value for `sasl_oauth_token_provider`.
    """
    return TokenFile(path)
