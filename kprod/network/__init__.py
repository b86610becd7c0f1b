"""Connections to brokers: addresses, sockets, frames, requests in flight.

Everything runs in the thread that calls `NetworkClient.poll`, except name resolution, which has its
own threads, and `wakeup`, which any thread may call.
"""

__all__ = ()
