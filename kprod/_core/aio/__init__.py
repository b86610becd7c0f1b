"""What an event loop runs and waits for: the coroutine of a send, the loop's mailbox, its waiters.

It serves `kprod.aio` and imports from the ground floor, `memory`, `outcome` and `send`.
"""
