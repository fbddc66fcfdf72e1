"""Ours against Apache Kafka's own classes: same files, one run, ratios. See docs/performance.md."""
