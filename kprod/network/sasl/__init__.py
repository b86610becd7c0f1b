"""The client side of SASL logins: mechanisms, and handshake steps that carry their messages."""

__all__ = ()
