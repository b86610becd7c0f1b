"""Reads records: by assignment of partitions, or of whole topics."""
