"""Signals: what turns unlabelled images into a gradient, and the policy that says when."""
