"""The server side of SASL mechanisms."""
