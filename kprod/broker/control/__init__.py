"""What a test may do to a cluster, by subject: topics, replicas, brokers, groups, clients."""

__all__ = ()
