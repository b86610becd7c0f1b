"""Methods by which a test controls a cluster: topics, replicas, brokers, groups, clients."""

__all__ = ()
