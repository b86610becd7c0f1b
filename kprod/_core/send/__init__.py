"""The path of a record from `send` into its partition's open batch."""
