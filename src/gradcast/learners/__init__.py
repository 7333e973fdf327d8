"""Continual learners: what each remembers and what it does to the gradient."""
