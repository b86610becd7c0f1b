"""TLS of the embedded broker: certificates made when it starts, and encrypted streams."""
