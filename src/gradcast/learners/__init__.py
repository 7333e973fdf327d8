"""Continual learners: what each checkpointed and what it does to the gradient."""

from gradcast.learners.agem import Agem
from gradcast.learners.dcl import ReferenceDirection, dcl
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem

__all__ = ["Agem", "Er", "Finetune", "Gem", "ReferenceDirection", "dcl"]
