"""kprod: a fast and honest Kafka producer."""
