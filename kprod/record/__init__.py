"""Record formats above the compiled core: reading, control records, checks, conversion."""

__all__ = ()
