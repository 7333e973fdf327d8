import torch

from gradcast.gradients.gradient import Gradient, PastGradients
from tests.replicas.passes.test_factors import factors

BOTH = torch.tensor([True, True])
SECOND = torch.tensor([False, True])


def known(seed: int) -> Gradient:
    one = factors(1, 4, seed)
    return Gradient(one.rows().squeeze(1), (one,))


def test_sums_keep_what_both_are_made_of() -> None:
    total = known(1) + known(2)
    assert torch.equal(total.flat, known(1).flat + known(2).flat)
    assert total.factors is not None
    assert len(total.factors) == 2
    assert (known(1) + Gradient(known(2).flat)).factors is None


def test_where_is_zero_elsewhere_in_both_forms() -> None:
    some = known(1).where(SECOND)
    assert some.factors is not None
    assert not some.flat[0].any()
    assert torch.equal(some.flat, some.factors[0].rows().squeeze(1))


def test_inner_products_agree_whether_or_not_gradients_are_formed() -> None:
    past, now = factors(3, 5, seed=0), known(1) + known(2).where(SECOND)
    lazy, formed = PastGradients(None, past), PastGradients(past.rows())
    expected = torch.einsum("rkp,rp->rk", past.rows(), now.flat)
    for one in (lazy.inner(now), formed.inner(now), lazy.inner(Gradient(now.flat))):
        assert torch.allclose(one, expected, rtol=1e-10)


def test_rows_of_all_replicas_or_some() -> None:
    past = factors(3, 5, seed=0)
    for one in (PastGradients(None, past), PastGradients(past.rows())):
        assert torch.equal(one.rows(), past.rows())
        assert torch.equal(one.rows(SECOND), past.rows()[1:])
