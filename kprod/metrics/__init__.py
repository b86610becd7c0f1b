"""What a producer counts of itself, under the names that Kafka's own producer gives."""

__all__ = ()
