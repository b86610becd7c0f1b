"""Requests and responses: fields of the protocol, frames, the pieces of a Produce request."""
