"""Logging in: the client's side of SASL mechanisms, and the steps that carry their messages."""
