"""The server's side of SASL mechanisms: bytes in, bytes out, and the user's name."""
