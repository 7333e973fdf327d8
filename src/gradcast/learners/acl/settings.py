"""The constants of adversarial continual learning."""

from typing import Literal

from gradcast.specs.table import Momentum, Natural, Positive, Rate, Table, Weight

PrivateInput = Literal["labelled", "unlabelled"]


class AclSettings(Table):
    """The defaults are the published ones for CIFAR-100; miniImageNet has others where it says so."""

    adversarial: Weight = 0.05  # weight of the discriminator's loss; miniImageNet 0.005
    orthogonal: Weight = 0.1  # weight of the likeness of shared and private features
    reversal: Weight = 1.0  # factor of the discriminator's gradient on its way, turned round, to the shared module
    difference: bool = True  # False: no orthogonality and, as in the published code, no reversal either
    updates: Positive = 5  # of the model for each labelled batch
    judgements: Natural = 1  # of the discriminator for each labelled batch
    momentum: Momentum = 0.9  # of SGD
    decay: Weight = 0.01  # weight decay of SGD
    discriminator_units: Positive = 175  # width of its hidden layers
    discriminator_lr: Rate = 0.001  # its learning rate
    discriminator_decay: Weight = 0.01  # its weight decay
    discriminator_scale: Weight = 1.0  # factor of its own loss; miniImageNet 0.005
    private_input: PrivateInput = "labelled"  # what the private module sees while the shared one sees unlabelled images

    @property
    def descent(self) -> tuple[float, float]:
        """Momentum and weight decay of SGD."""
        return self.momentum, self.decay

    @property
    def updates_a_batch(self) -> int:
        """How often a step is made on each batch."""
        return self.updates
