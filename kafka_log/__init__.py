"""What a log means: Apache Kafka's rules as plain functions; no Spark, no sockets."""
