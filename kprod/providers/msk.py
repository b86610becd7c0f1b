"""Tokens for Amazon MSK with IAM, signed by AWS's own library (the extra `kprod[msk]`).

Thread-safety: any thread.
Source: aws-msk-iam-sasl-signer-python (1.0.2), which gives the end in milliseconds.
"""

from dataclasses import dataclass

from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token


@dataclass(frozen=True, slots=True)
class MskTokens:
    """Signs a token each time.

    Attributes:
        region: AWS's name, such as `eu-west-1`.
        role_arn: A role to assume; None for the credentials of the environment.
        profile: A profile of AWS's configuration; None for none.
    """

    region: str
    role_arn: str | None = None
    profile: str | None = None

    def token(self) -> Token:
        """Sign a token.

        Returns:
            A token for some 15 minutes, or for the lifetime of the credentials.

        Raises:
            AuthenticationFailed: The extra is not installed.
        """
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra
        except ImportError:
            raise AuthenticationFailed(
                "the provider for Amazon MSK needs aws-msk-iam-sasl-signer-python:"
                " pip install 'kprod[msk]'"
            ) from None
        signer = MSKAuthTokenProvider
        if self.role_arn is not None:
            text, ends_ms = signer.generate_auth_token_from_role_arn(self.region, self.role_arn)
        elif self.profile is not None:
            text, ends_ms = signer.generate_auth_token_from_profile(self.region, self.profile)
        else:
            text, ends_ms = signer.generate_auth_token(self.region)
        return Token(text, ends_ms / 1_000)


def msk(region: str, *, role_arn: str | None = None, profile: str | None = None) -> MskTokens:
    """Make a provider for Amazon MSK with IAM.

    Args:
        region: AWS's name, such as `eu-west-1`.
        role_arn: A role to assume; None for the credentials of the environment.
        profile: A profile of AWS's configuration, instead of a role.

    Returns:
        A value for `sasl_oauth_token_provider`.
    """
    return MskTokens(region, role_arn, profile)
