"""Metrics of producers, under the names of Kafka's own producer."""

__all__ = ()
