"""Producer identity: ids, epochs and sequences, which idempotence and transactions stand on."""
