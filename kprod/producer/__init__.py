"""The producer engine: what happens to a record between `send` and its outcome."""

__all__ = ()
