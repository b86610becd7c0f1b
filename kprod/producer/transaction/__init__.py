"""Producer ids, epochs and sequences, for idempotence and transactions."""
