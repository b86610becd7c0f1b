"""The hierarchical timing wheel and the purgatory's watch lists."""
