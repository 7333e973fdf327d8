"""The constants of adversarial continual learning."""

from dataclasses import dataclass
from typing import Literal

from gradcast.errors import GradcastError

PrivateInput = Literal["labelled", "unlabelled"]


@dataclass(frozen=True)
class AclSettings:
    """The defaults are the published ones for CIFAR-100; miniImageNet has others where it says so."""

    adversarial: float = 0.05  # weight of the discriminator's loss; miniImageNet 0.005
    orthogonal: float = 0.1  # weight of the likeness of shared and private features
    reversal: float = 1.0  # factor of the discriminator's gradient on its way, turned round, to the shared module
    updates: int = 5  # of the model for each labelled batch
    judgements: int = 1  # of the discriminator for each labelled batch
    momentum: float = 0.9
    decay: float = 0.01
    discriminator_units: int = 175
    discriminator_lr: float = 0.001
    discriminator_decay: float = 0.01
    discriminator_scale: float = 1.0  # factor of its own loss; miniImageNet 0.005
    private_input: PrivateInput = "labelled"  # what the private module sees while the shared one sees unlabelled images

    def __post_init__(self) -> None:
        if self.updates < 1 or self.judgements < 0:
            raise GradcastError(
                f"a labelled batch makes {self.updates} updates of the model and {self.judgements} of the "
                "discriminator; it needs at least 1 and 0"
            )
