import torch

from gradcast.randomness import derive, numpy_generator, resting, seeded, torch_generator


def test_streams_with_different_names_or_seeds_differ() -> None:
    seeds = {derive(seed, name, number) for seed in range(5) for name in ("a", "b") for number in range(5)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_derived_seeds_are_the_same_everywhere() -> None:
    assert derive(0, "model") == 7950438430984455888  # results stored today must be reproducible tomorrow


def test_generators_repeat() -> None:
    assert numpy_generator(1, "x").random() == numpy_generator(1, "x").random()
    assert torch.equal(
        torch.rand(3, generator=torch_generator(1, "x")), torch.rand(3, generator=torch_generator(1, "x"))
    )


def test_seeded_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeded(0, "anything"):
        inside = torch.rand(2)
    assert torch.equal(torch.rand(2), expected)
    with seeded(0, "anything"):
        assert torch.equal(torch.rand(2), inside)


def test_generators_that_rest_end_as_they_were() -> None:
    awake, asleep = numpy_generator(0, "draws"), numpy_generator(1, "draws")
    with resting([asleep]):
        first = [draw.random() for draw in (awake, asleep)]
    assert awake.random() != first[0]
    assert asleep.random() == first[1]
