"""A deterministic simulation: the production decisions against a hostile world, in one thread, from a seed.

`python -m tests.simulation --seeds 1000` runs it. What is driven is production code: the watch session with its
publisher, and the partition task with its protocol. What is simulated is what they talk to: an API server on an etcd,
and Kafka. The world keeps its own history, and that is the ground truth that the checkers judge by.
"""
