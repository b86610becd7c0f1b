"""Producer ids, epochs and sequences: what idempotence and transactions need."""
