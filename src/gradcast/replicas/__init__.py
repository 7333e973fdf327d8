"""Replicas: several seeds of one network, trained at once along a leading axis."""
