"""Security of the embedded broker: TLS with generated certificates, logins, and access control."""

__all__ = ()
