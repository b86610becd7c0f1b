"""The lifetime of a client with a thread: the thread itself, forks, the interpreter's exit."""

__all__ = ()
