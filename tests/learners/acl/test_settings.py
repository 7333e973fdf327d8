import pytest
from pydantic import ValidationError

from gradcast.learners.acl.settings import AclSettings


def test_the_published_constants_for_cifar() -> None:
    found = AclSettings()
    assert (found.adversarial, found.orthogonal, found.reversal) == (0.05, 0.1, 1)
    assert (found.updates, found.judgements, found.momentum, found.decay) == (5, 1, 0.9, 0.01)
    assert (found.discriminator_units, found.discriminator_lr, found.discriminator_decay) == (175, 0.001, 0.01)


@pytest.mark.parametrize("wrong", [{"updates": 0}, {"judgements": -1}])
def test_a_batch_makes_at_least_one_update(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="greater than or equal"):
        AclSettings(**wrong)  # type: ignore[arg-type]
