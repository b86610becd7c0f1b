"""Requests that wait: for followers to copy a batch, for bytes to fetch."""
