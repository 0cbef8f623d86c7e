"""One machine: a real Kafka, an API server to try it on, and the demo."""
