"""Methods of a cluster for tests, by subject: topics, replicas, brokers, groups, clients."""
