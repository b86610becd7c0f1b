"""Requests that wait: for replication, for records to fetch, for group members."""

__all__ = ()
