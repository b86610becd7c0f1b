"""Counters that the sending threads and the sender share."""
