import pytest
import torch
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks.autoencoder import decoder, encoder
from gradcast.replicas.replicas import Replicas
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.adversarial import LocalDivergence
from gradcast.signals.registry import SIGNALS
from gradcast.signals.signal_entry import SignalEntry
from gradcast.signals.tnar import Tnar, TnarSpec, solved
from gradcast.signals.vae import Vae
from gradcast.specs.fit import check
from gradcast.specs.text import load
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, Shown, SignalLoss
from tests.signals.scene import scene
from tests.signals.test_vat import drawn, hessian, kl, silently
from tests.training.scene import shared

IMAGES, LATENT, WIDTHS = 5, 4, [7]
TABLE = TnarSpec(
    name="tnar", tangent=0.7, normal=0.6, entropy=0.3, tangent_epsilon=2.0, normal_epsilon=0.8, zeta=0.02, xi=0.05,
    iterations=2, solver_steps=3, latent=LATENT, widths=WIDTHS, vae_lr=0.01,
)  # fmt: skip


def signal(model: Replicas, table: TnarSpec = TABLE, seeds: tuple[int, ...] = (0, 1)) -> Tnar:
    model.chance.unlabelled.drawn = True
    vae = Vae((6,), WIDTHS, LATENT, seeds, model.theta, lr=table.vae_lr)
    return Tnar(vae, table, model.theta)


def own_coders(vae: Vae, replica: int) -> tuple[nn.Module, nn.Module]:
    """Ordinary modules with one replica's weights."""
    coders = encoder((6,), WIDTHS, LATENT).double(), decoder((6,), WIDTHS, LATENT).double()
    for name, coder in zip(("encoder", "decoder"), coders, strict=True):
        coder.load_state_dict({key: vae.weights[f"{name}.{key}"][replica] for key in coder.state_dict()})
    return coders


def normalised(r: Tensor, how: str) -> Tensor:
    """As in the release, whose second division is lost; or with it."""
    r = r / (1e-12 + r.abs().amax(1, keepdim=True))
    return r if how == "largest" else r / (r.square().sum(1, keepdim=True) + 1e-6).sqrt()


def jacobian(decode: nn.Module, code: Tensor) -> Tensor:
    """Of the decoder at the code of one image."""
    found = torch.autograd.functional.jacobian(lambda z: decode(z[None])[0], code)
    assert isinstance(found, Tensor)
    return found


def conjugate_gradients(matrix: Tensor, b: Tensor, steps: int) -> Tensor:
    """The release's, for one image."""
    found, r, p = torch.zeros_like(b), b.clone(), b.clone()
    for _ in range(steps):
        changed, r2 = matrix @ p, r @ r
        alpha = r2 / (p @ changed + 1e-8) if r2 > 1e-8 else torch.zeros_like(r2)
        found = found + alpha * p
        r = r - alpha * changed
        p = r + (r @ r) / (r2 + 1e-8) * p
    return found


def spelled(coders: tuple[nn.Module, nn.Module], seed: int, table: TnarSpec) -> SignalLoss:
    """The formula for one seed; the VAE takes its step of torch's Adam after each use."""
    encode, decode = coders
    adam = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=table.vae_lr)
    xi, how, batches = table.xi, table.normalise, 0

    def loss(network: nn.Module, shown: Shown, step: int) -> Tensor:
        nonlocal batches
        assert shown.unlabelled is not None
        x = shown.unlabelled[:IMAGES]
        first, second, third = drawn(seed, step, (IMAGES, LATENT), (IMAGES, 6), (IMAGES, LATENT))
        z = network(x)[:, shown.columns]
        p = z.softmax(-1).detach()
        with torch.no_grad():
            code = encode(x)[:, :LATENT]
            recon = decode(code)
        e = normalised(first, how)
        for _ in range(table.iterations):
            small = (xi * e).requires_grad_()
            moved = decode(code + small) - recon + x
            (slope,) = torch.autograd.grad(kl(p, silently(network, moved)[:, shown.columns]), small)
            e = normalised(slope / xi, how)
            jacobians = [jacobian(decode, own) for own in code]
            rows = [conjugate_gradients(j.T @ j, own, table.solver_steps) for j, own in zip(jacobians, e, strict=True)]
            e = normalised(torch.stack(rows), how)
        along = (decode(code + table.tangent_epsilon * e) - recon).detach()
        r = normalised(along, how)
        s = normalised(second, how)
        for _ in range(table.iterations):
            small = (xi * s).requires_grad_()
            (slope,) = torch.autograd.grad(kl(p, silently(network, x + small)[:, shown.columns]), small)
            s = normalised(slope / xi - table.zeta * (r * s).sum(1, keepdim=True) * r + table.zeta * s, how)
        tangent = kl(p, silently(network, x + along)[:, shown.columns])
        normal = kl(p, silently(network, x + table.normal_epsilon * s)[:, shown.columns])
        q = z.softmax(-1)
        uncertain = -(q * q.log()).sum(-1).mean()
        total = table.tangent * tangent + table.normal * normal + table.entropy * uncertain
        adam.zero_grad()
        mean, logs = encode(x).split(LATENT, dim=1)
        again = decode(mean + torch.exp(0.5 * logs) * third)
        prior = (-0.5 * (1 + logs - mean**2 - logs.exp())).sum(1).mean()
        (x.shape[1] / 2 * torch.log(((again - x) ** 2).mean() + 1e-6) + prior).backward()
        adam.step()
        batches += 1
        return total if batches > table.warm_up else total.detach() + 0 * total

    return loss


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("task known", {}),
        ("classes seen", {"normalise": "length"}),
        ("all classes", {"warm_up": 3}),
        ("uneven tasks", {"iterations": 1}),
    ],
)
def test_three_tasks_train_as_in_a_plain_loop(kind: str, changes: dict[str, object]) -> None:
    heads, table = HEADS[kind], TABLE.model_copy(update=changes)
    model = plain_loop.model(heads)
    own = signal(model, table)
    alone = [(own_module(model, replica).train(), own_coders(own.vae, replica)) for replica in range(2)]
    losses = plain_loop.together(own, model, IMAGES)
    for replica, (plain, coders) in enumerate(alone):
        expected = plain_loop.alone(plain, heads, IMAGES, replica, [], spelled(coders, replica, table))
        torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        for name, coder in zip(("encoder", "decoder"), coders, strict=True):
            for key, weight in coder.state_dict().items():
                torch.testing.assert_close(own.vae.weights[f"{name}.{key}"][replica], weight, rtol=1e-9, atol=1e-9)
        for name, buffer in plain.named_buffers():
            torch.testing.assert_close(model.buffers[name][replica], buffer, rtol=1e-9, atol=1e-9)


def test_replicas_train_together_as_they_do_alone() -> None:
    heads = HEADS["uneven tasks"]
    both, single = plain_loop.model(heads), plain_loop.model(heads, 1, first_seed=1)
    single.chance.seeds[:] = [1]
    once = TABLE.model_copy(update={"iterations": 1})
    first, second = signal(both, once), signal(single, once, seeds=(1,))
    plain_loop.together(first, both, IMAGES)
    plain_loop.together(second, single, IMAGES, only=1)
    torch.testing.assert_close(both.theta[1:], single.theta, rtol=1e-10, atol=1e-10)
    for name, weight in second.vae.weights.items():
        torch.testing.assert_close(first.vae.weights[name][1:], weight, rtol=1e-10, atol=1e-10)
    assert first.batches.tolist() == [17, 9]


def test_directions_are_those_of_largest_eigenvalues() -> None:
    """Hessian and Jacobian by finite differences; without BatchNorm's statistics every image is alone."""
    at = scene(norm="batch", images=3)
    changes = {"normalise": "length", "xi": 1e-4, "iterations": 50, "solver_steps": 6, "tangent_epsilon": 1e-4}
    own = signal(at.model, TABLE.model_copy(update=changes))
    for name, weight in own.vae.weights.items():
        weight *= 3 if name.startswith("decoder") else 1  # far from singular, so that conjugate gradients end
    near, _ = LocalDivergence.around(at.model, at.unlabelled, 1, "frozen")
    along = own._along(near) / 1e-4
    unit = along / along.norm(dim=-1, keepdim=True)
    across = own._across(near, unit)
    for replica in range(2):
        _, decode = own_coders(own.vae, replica)
        for image in range(3):
            curved, code = hessian(at, replica, image), own.vae.encode(at.unlabelled.x)[replica, image]
            j = differences(decode, code)
            values, vectors = torch.linalg.eigh(curved_within(curved, j))
            assert values[-1] > 1.1 * values[-2]
            basis = torch.linalg.qr(j).Q
            assert abs(float(unit[replica, image] @ (basis @ vectors[:, -1]))) > 0.999
            r = unit[replica, image]
            matrix = curved / 3 - TABLE.zeta * (torch.outer(r, r) - torch.eye(6, dtype=r.dtype))
            values, vectors = torch.linalg.eigh(matrix)
            assert values[-1] > 1.02 * values[:-1].abs().max()
            assert abs(float(across[replica, image] @ vectors[:, -1])) > 0.99


@torch.no_grad()
def differences(decode: nn.Module, code: Tensor) -> Tensor:
    """The decoder's Jacobian by central differences."""
    steps = 1e-6 * torch.eye(len(code), dtype=code.dtype)
    columns = [(decode((code + h)[None])[0] - decode((code - h)[None])[0]) / 2e-6 for h in steps]
    return torch.stack(columns, dim=1)


def curved_within(curved: Tensor, j: Tensor) -> Tensor:
    """The Hessian along an orthonormal basis of what the decoder spans: there J' J is 1."""
    basis = torch.linalg.qr(j).Q
    return basis.T @ curved @ basis


def test_conjugate_gradients_solve_in_as_many_steps_as_there_are_numbers() -> None:
    generator = torch.Generator().manual_seed(0)
    root, b = (torch.randn(2, 3, 4, n, generator=generator, dtype=torch.float64) for n in (4, 1))
    matrix = root @ root.mT + torch.eye(4, dtype=torch.float64)
    found = solved(lambda p: (matrix @ p.unsqueeze(-1)).squeeze(-1), b.squeeze(-1), 4)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, b).squeeze(-1), rtol=1e-5, atol=1e-6)
    assert not solved(lambda p: p, torch.zeros_like(found), 4).any()


def test_images_too_small_for_the_encoder_are_refused() -> None:
    def fitted(*changes: str) -> None:
        found = load("digits", ["signal.name=tnar", *changes]).rows[1].setting
        run: PreparedRun = shared()
        check(found, run.stream(found))

    fitted("signal.latent=4")
    with pytest.raises(
        GradcastError, match=r"halves an image 4 times, and these are 8 x 8: set signal.widths"
    ) as caught:
        fitted("signal.widths=[2, 2, 2, 2]")
    assert "\n" not in str(caught.value)
    for bad in ("signal.widths=[]", "signal.normalise=both", "signal.latent=0"):
        with pytest.raises(GradcastError, match=r"signal\."):
            fitted(bad)


def test_weights_of_the_vae_are_counted() -> None:
    entry = SIGNALS["tnar"]
    assert isinstance(entry, SignalEntry)
    vae = Vae((3, 8, 8), [4, 5], 6, [0], torch.zeros(1))
    own = TnarSpec(name="tnar", widths=[4, 5], latent=6)
    assert entry.weights(own, (3, 8, 8)) == sum(weight[0].numel() for weight in vae.weights.values())
