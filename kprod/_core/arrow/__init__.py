"""Arrow tables sent as records: the C data interface, columns, rows."""
