"""Training: the loop, one step, and what watches over both."""
