"""Learners by name: one line each."""

from typing import TYPE_CHECKING

from gradcast.learners import (
    agem,
    bic,
    cfa,
    dcl,
    der,
    der_plus_plus,
    er,
    er_ace,
    ewc,
    finetune,
    gem,
    hal,
    hat,
    icarl,
    icarl_original,
    independent,
    joint,
    lucir,
    lwf,
    mas,
    multimodal,
    pnn,
    python_learner,
    xder,
)
from gradcast.learners.acl import acl_table as acl
from gradcast.learners.learner_table import LearnerTable
from gradcast.specs.entry import Registry

LEARNERS = Registry(
    "learner",
    [
        finetune.ENTRY,
        gem.ENTRY,
        dcl.ENTRY,
        agem.ENTRY,
        er.ENTRY,
        er_ace.ENTRY,
        der.ENTRY,
        der_plus_plus.ENTRY,
        xder.ENTRY,
        hal.ENTRY,
        ewc.ENTRY,
        mas.ENTRY,
        lwf.ENTRY,
        icarl.ENTRY,
        icarl_original.ENTRY,
        bic.ENTRY,
        lucir.ENTRY,
        cfa.ENTRY,
        joint.ENTRY,
        independent.ENTRY,
        multimodal.ENTRY,
        acl.ENTRY,
        pnn.ENTRY,
        hat.ENTRY,
        python_learner.ENTRY,
    ],
)
if TYPE_CHECKING:
    LearnerSpec = LearnerTable
else:
    LearnerSpec = LEARNERS.union()
