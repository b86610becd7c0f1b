"""Kafka's request protocol: bytes and values in, bytes and values out; no socket, no clock."""

__all__ = ()
