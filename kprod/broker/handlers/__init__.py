"""One handler for each API, in a file of the same name, with its behaviour and omissions."""

__all__ = ()
