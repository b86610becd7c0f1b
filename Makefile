# The few commands a person types; each sets up what it needs.

PYTHON ?= python3

.PHONY: kafka kafka-fetch

kafka-fetch:  ## get Apache Kafka for the tests into the cache outside the checkout
	$(PYTHON) -m tests.plugins.kafka fetch

kafka:  ## start an Apache Kafka by hand (ARGS="--brokers 3"), print its address, stop on Ctrl-C
	$(PYTHON) -m tests.plugins.kafka run $(ARGS)
