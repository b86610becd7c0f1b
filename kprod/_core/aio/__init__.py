"""The compiled parts of asyncio support: the coroutine of a send, the loop's mailbox, its waiters.

It serves `kprod.aio` and imports from the ground floor, `memory`, `outcome` and `send`.
"""

__all__ = ()
