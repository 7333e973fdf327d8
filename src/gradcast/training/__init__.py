"""Training: the loop, one step, schedules, evaluation and checks."""
