import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.errors import GradcastError
from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas, Statistics
from tests.helpers import CPU, batch, flat, replicas


def own_module(model: Replicas, replica: int) -> nn.Module:
    """An ordinary module with one replica's weights and buffers: the independent spelling."""
    module = copy.deepcopy(model.module)
    for name, value in (model.parameters(model.theta) | model.buffers).items():
        target = dict(module.named_parameters()) | dict(module.named_buffers())
        target[name].data.copy_(value[replica])
    return module


def loss_gradient(module: nn.Module, x: Tensor, y: Tensor, columns: slice = slice(None)) -> Tensor:
    loss = cross_entropy(module(x)[:, columns], y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])


def columns(heads: Heads, task: int) -> slice:
    return slice(3 * task, 3 * task + 3) if heads.masked else slice(None)


def test_theta_is_the_modules_weights_in_order() -> None:
    modules = [MLP([4, 3, 2]), MLP([4, 3, 2])]
    expected = torch.stack([flat(module) for module in modules])
    model = Replicas(modules, Heads.even(2), device=CPU, dtype=torch.float32)
    assert torch.equal(model.theta, expected)
    assert {name: tuple(v.shape) for name, v in model.parameters(model.theta).items()} == {
        "layers.0.weight": (2, 3, 4),
        "layers.0.bias": (2, 3),
        "layers.2.weight": (2, 2, 3),
        "layers.2.bias": (2, 2),
    }


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_logits_and_statistics_equal_each_module_alone(norm: str) -> None:
    model = replicas(3, norm=norm)  # type: ignore[arg-type]
    alone = [own_module(model, r).train() for r in range(3)]
    data = batch(model)
    found = model.forward(data.x, 0).z
    expected = torch.stack([module(data.x[r]) for r, module in enumerate(alone)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for name, buffer in model.buffers.items():
        torch.testing.assert_close(buffer, torch.stack([dict(m.named_buffers())[name] for m in alone]))


@pytest.mark.parametrize("statistics", ["separate", "frozen"])
def test_other_policies_leave_running_statistics_alone(statistics: str) -> None:
    model = replicas(2, norm="batch")
    model.forward(batch(model, seed=1).x, 0)
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    data = batch(model)
    module = own_module(model, 0).train(statistics == "separate")
    found = model.forward(data.x, 0, statistics=statistics).z  # type: ignore[arg-type]
    torch.testing.assert_close(found[0], module(data.x[0]))
    assert all(torch.equal(before[name], model.buffers[name]) for name in before)


def test_replicas_outside_used_keep_their_statistics() -> None:
    model = replicas(2, norm="batch")
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    model.forward(batch(model).x, 0, used=torch.tensor([True, False]))
    name = "layers.1.running_mean"
    assert not torch.equal(before[name][0], model.buffers[name][0])
    assert torch.equal(before[name][1], model.buffers[name][1])


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("masked", [False, True])
def test_memory_gradients_equal_passes_one_after_another(norm: str, masked: bool) -> None:
    heads = Heads.even(3, tasks=4, masked=masked)
    model = replicas(2, heads=heads, norm=norm)  # type: ignore[arg-type]
    alone = [own_module(model, r).train() for r in range(2)]
    tasks = torch.tensor([2, 0, 1])
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    y = torch.randint(3, (2, 3, 5))
    expected = torch.stack(
        [
            torch.stack([loss_gradient(m, x[r, k], y[r, k], columns(heads, t)) for k, t in enumerate(tasks.tolist())])
            for r, m in enumerate(alone)
        ]
    )
    found = model.recall(x, y, tasks, task=3).rows()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    for name, buffer in model.buffers.items():  # folded in the order of the tasks
        torch.testing.assert_close(
            buffer, torch.stack([dict(m.named_buffers())[name] for m in alone]), rtol=1e-12, atol=0
        )


def test_constants_of_a_network_survive_the_folding() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + self.shift

    model = Replicas([Shifted()], Heads.even(3), device=CPU, dtype=torch.float32)
    model.recall(torch.randn(1, 2, 4, 3), torch.zeros(1, 2, 4, dtype=torch.long), torch.tensor([0, 1]), task=2)
    assert torch.equal(model.buffers["shift"], torch.tensor([[1.0, 2.0, 3.0]]))


def test_classify_uses_running_statistics() -> None:
    model = replicas(2, norm="batch")
    model.forward(batch(model).x, 0)
    x = torch.randn(7, 6, dtype=torch.float64)
    expected = torch.stack([own_module(model, r).eval()(x).argmax(1) for r in range(2)])
    assert torch.equal(model.outputs_of(x).argmax(-1), expected)


def test_step_is_plain_descent() -> None:
    model = replicas(2)
    before, gradient = model.theta.clone(), torch.randn_like(model.theta)
    model.step(gradient, 0.1)
    assert torch.allclose(model.theta, before - 0.1 * gradient, rtol=0, atol=1e-14)


def dropping(*seeds: int) -> Replicas:
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, "model"):
            body = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout2d(0.4), nn.Flatten(), nn.Dropout(0.3)]
            modules.append(nn.Sequential(*body, nn.Linear(64, 3)))
    return Replicas(modules, Heads.even(3), device=CPU, dtype=torch.float64, seeds=seeds)


def test_what_a_replica_drops_does_not_depend_on_who_trains_beside_it() -> None:
    x = torch.randn(4, 4, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y, tasks = torch.tensor([[[0, 1, 2, 0]] * 2]), torch.tensor([0, 1])
    found = []
    for seeds in ((5,), (1, 5, 9)):
        model, own = dropping(*seeds), seeds.index(5)
        past = model.recall(x[:2].expand(len(seeds), -1, -1, -1, -1, -1), y.expand(len(seeds), -1, -1), tasks, task=2)
        z = model.forward(x[2:3].expand(len(seeds), -1, -1, -1, -1), 0).z
        found.append(torch.cat([past.rows()[own].flatten(), z[own].flatten()]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)
    model = dropping(5)
    passes = [model.forward(x[:1], 0).z for _ in range(2)]
    assert not torch.allclose(*passes)


@pytest.mark.parametrize("statistics", ["update", "separate", "frozen"])
def test_memories_pass_under_the_policy_that_is_asked_for(statistics: Statistics) -> None:
    model = replicas(2, norm="batch")
    model.forward(batch(model, seed=1).x, 0)
    alone = [own_module(model, r).train(statistics != "frozen") for r in range(2)]
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    data = batch(model, seed=2)
    past = model.recall(data.x.unsqueeze(1), data.y.unsqueeze(1), torch.tensor([0]), task=1, statistics=statistics)
    expected = torch.stack([loss_gradient(module, data.x[r], data.y[r]) for r, module in enumerate(alone)])
    torch.testing.assert_close(past.rows().squeeze(1), expected, rtol=1e-9, atol=1e-12)
    unchanged = all(torch.equal(buffer, before[name]) for name, buffer in model.buffers.items())
    assert unchanged == (statistics != "update")


def test_weights_that_ask_for_no_gradient_stay() -> None:
    modules = [MLP([4, 3, 2]), MLP([4, 3, 2])]
    for module in modules:
        module.layers[0].weight.requires_grad_(False)  # type: ignore[union-attr]
    model = Replicas(modules, Heads.even(2), device=CPU, dtype=torch.float64)
    data = batch(model)
    past = model.recall(data.x.unsqueeze(1), data.y.unsqueeze(1), torch.tensor([0]), task=1).rows()
    made = model.forward(data.x, 0)
    gradient = made.pull(torch.ones_like(made.z)).flat
    frozen = model.places["layers.0.weight"]
    assert not past[..., frozen].any()
    assert not gradient[..., frozen].any()
    assert gradient[..., frozen.stop :].any()


def test_tensors_that_differ_and_are_no_buffers_are_refused() -> None:
    modules = [MLP([4, 3, 2]), MLP([4, 3, 2])]
    for value, module in enumerate(modules):
        module.layers[0].constant = torch.tensor(float(value))  # type: ignore[assignment]
    with pytest.raises(GradcastError, match=r"MLP.layers.0.constant is a tensor that differs .* register_buffer"):
        Replicas(modules, Heads.even(2), device=CPU, dtype=torch.float64)


class Flattened(nn.Module):
    """Its ``view`` needs images that lie channel by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.convolution(x).view(len(x), -1))
        return y


def test_networks_that_view_images_are_evaluated_and_trained() -> None:
    model = Replicas([Flattened()], Heads.even(3), device=CPU, dtype=torch.float64)
    x = torch.randn(1, 5, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = own_module(model, 0)(x[0])
    for _ in range(2):
        assert torch.equal(model.outputs_of(x[0])[0].argmax(-1), expected.argmax(1))
        torch.testing.assert_close(model.forward(x, 0).z[0], expected, rtol=1e-9, atol=1e-12)


class Looking(nn.Sequential):
    """BatchNorm in a network that only runs one by one."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if y.sum() > 0 else y * 1.0


@pytest.mark.parametrize("training", [True, False])
def test_unlabelled_passes_keep_statistics_in_any_way_of_passing(training: bool) -> None:
    norm = nn.BatchNorm1d(6)
    modules = [Looking(norm, nn.Linear(6, 3)), Looking(copy.deepcopy(norm), nn.Linear(6, 3))]
    model = Replicas(modules, Heads.even(3), device=CPU, dtype=torch.float64)
    data = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="one by one"):
        made = model.forward(data, 0, used=torch.tensor([True, False]), statistics="update" if training else "frozen")
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    assert made.pull(torch.ones_like(made.z)).flat.any()
    assert all(torch.equal(model.buffers[name], buffer) for name, buffer in before.items())
    assert not model.buffers["0.running_mean"][1].any()
    assert bool(model.buffers["0.running_mean"][0].any()) == training


def test_every_replica_may_step_at_its_own_rate() -> None:
    model = replicas(2)
    start, gradient = model.theta.clone(), torch.randn_like(model.theta)
    model.step(gradient, torch.tensor([0.5, 0.0], dtype=torch.float64))
    torch.testing.assert_close(model.theta[0], start[0] - 0.5 * gradient[0])
    assert torch.equal(model.theta[1], start[1])


class Recurrent(nn.Module):
    """Weights outside of layers that can be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Twice the same weight."""
        return self.last(torch.tanh(torch.tanh(x @ self.weight) @ self.weight))  # type: ignore[no-any-return]


IMAGE_NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: MLP([6, 5, 3]), (6,)),
    "folded": (lambda: MLP([6, 5, 3], norm="batch"), (6,)),
    "convolutions": (lambda: SlimResNet18(2, 3), (3, 8, 8)),
    "vmapped": (Recurrent, (6,)),
    "one by one": (lambda: Looking(nn.BatchNorm1d(6), nn.Linear(6, 3)), (6,)),
}


@pytest.mark.filterwarnings("ignore:the network Looking")
@pytest.mark.parametrize("statistics", ["separate", "frozen"])
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_gradients_at_images_equal_each_module_alone(name: str, statistics: Statistics) -> None:
    make, shape = IMAGE_NETWORKS[name]
    with seeded(0, "images"):
        model = Replicas([make(), make()], Heads.even(3), device=CPU, dtype=torch.float64)
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, *shape, dtype=torch.float64, generator=drawn).requires_grad_()
    made = model.forward(x, 0, statistics=statistics, used=torch.tensor([True, True]))
    slope = torch.randn(made.z.shape, dtype=torch.float64, generator=drawn)
    found = made.at_images(slope)
    for replica in range(2):
        own = x[replica].detach().requires_grad_()
        z = own_module(model, replica).train(statistics != "frozen")(own)
        torch.testing.assert_close(found[replica], torch.autograd.grad(z, own, slope[replica])[0])


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_passes_side_by_side_equal_passes_one_after_another(norm: str) -> None:
    together, apart = replicas(2, norm=norm), replicas(2, norm=norm)
    x = torch.stack([batch(together, seed=seed).x for seed in range(3)], 1)
    made, each = together.side_by_side(x), [apart.everything(x[:, k]) for k in range(3)]
    torch.testing.assert_close(made.z, torch.cat([one.z for one in each], 1))
    dz = torch.randn_like(made.z)
    expected = sum(one.pull(slope).flat for one, slope in zip(each, dz.chunk(3, 1), strict=True))
    torch.testing.assert_close(made.pull(dz).flat, expected)
    for name, buffer in apart.buffers.items():
        torch.testing.assert_close(together.buffers[name], buffer)
