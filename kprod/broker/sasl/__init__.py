"""The server side of SASL mechanisms."""

__all__ = ()
