"""Security of the embedded broker: TLS with certificates made when it starts, and logins."""
