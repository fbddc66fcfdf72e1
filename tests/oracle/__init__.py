"""Apache Kafka's own classes, called from the tests: the judge of every byte and rule."""
