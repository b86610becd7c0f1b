"""What any client with a thread needs for its life: the thread, forks, the interpreter's end."""

__all__ = ()
