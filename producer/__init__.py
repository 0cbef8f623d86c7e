"""The producer: LIST and WATCH of a cluster, relist markers included, into the events topic."""
