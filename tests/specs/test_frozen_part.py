from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import cross_entropy

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.networks import SlimResNet18
from gradcast.networks.staged import weights_of
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import build
from gradcast.specs.frozen_part import frozen_stages
from gradcast.specs.spec import Setting
from gradcast.specs.text import parse
from tests.helpers import CPU

PLACE = Place(CPU, torch.float64)


def weights(folder: Path) -> str:
    """A file of features, whose running statistics are not those of a new network."""
    torch.manual_seed(7)
    network = SlimResNet18(2, None, channels=1).train()
    network(torch.rand(20, 1, 8, 8))
    file = folder / "weights.safetensors"
    save_file(network.state_dict(), file)
    return str(file)


def setting(*, plain: bool = False, **model: object) -> Setting:
    descent = {} if plain else {"momentum": 0.5, "decay": 0.01}
    return (
        parse(
            {
                "name": "frozen",
                "stream": {"scenario": "split", "tasks": 2, "classes_per_task": 2, "samples": 24, "batch": 6},
                "model": {"name": "slim-resnet18", "width": 2, **model},
                "learner": {"name": "finetune", "lr": 0.05, **descent},
                "row": [{"name": "base"}],
            }
        )
        .rows[0]
        .setting
    )


def prepared() -> PreparedRun:
    return PreparedRun(PLACE, Shelf(Path("data"), Cache(Path("cache")), untracked))


@pytest.mark.parametrize("train", ["head", 2])
def test_it_trains_as_torch_does_with_frozen_layers_and_groups_of_rates(train: str | int, tmp_path: Path) -> None:
    rates = {"head": 1.0, "layer3": 0.3, "body": 0.7} if train == 2 else {"head": 0.5}
    own = setting(train=train, weights=weights(tmp_path), rates=rates, plain=train == "head")
    run = prepared()
    loop = run.loop(own, [3])
    initial = {name.removeprefix("model."): rows[0].clone() for name, rows in loop.state().items()}
    loop.run([])
    stream = run.stream(own)
    whole = build.whole_network(own, stream).double()
    whole.load_state_dict(initial)
    names = [name for name, _ in whole.named_parameters()]
    late = [name for name in names if name.startswith(("linear", "layer3", "layer4") if train == 2 else "linear")]
    factor = {name: next((rate for part, rate in rates.items() if name.startswith(part)), None) for name in late}
    for task in range(2):
        groups = []
        for name in late:
            rate = factor[name] or rates["head" if name.startswith("linear") else "body"]
            groups.append({"params": [whole.get_parameter(name)], "lr": 0.05 * rate})
        momentum, decay = (0.5, 0.01) if train == 2 else (0, 0)
        sgd = torch.optim.SGD(groups, lr=0.05, momentum=momentum, weight_decay=decay)
        images = stream.tasks[task].train.images()
        order = stream.first_pass(task, 3)
        for places in order.reshape(-1, 6):
            whole.eval()
            for name, layer in whole.named_children():
                layer.train(any(own.startswith(name) for own in late))
            x = torch.from_numpy(images.x[places]).double() / 255
            logits = whole(x)[:, 2 * task : 2 * task + 2]
            sgd.zero_grad()
            cross_entropy(logits, torch.from_numpy(images.y[places])).backward()
            sgd.step()
    found = {name.removeprefix("model."): rows[0] for name, rows in loop.state().items()}
    expected = whole.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name].to(tensor), tensor, rtol=0, atol=1e-9, msg=name)
    assert not torch.equal(found["linear.weight"], initial["linear.weight"])


def test_random_weights_are_not_frozen() -> None:
    own = setting(train="head")
    with pytest.raises(GradcastError, match="freezes weights that are random"):
        prepared().loop(own, [0])


def test_weights_of_a_shared_head_start_are(tmp_path: Path) -> None:
    own = setting(train="head")
    stream = prepared().stream(own)
    torch.manual_seed(1)
    ahead = SlimResNet18(2, None, channels=1).state_dict()
    frozen = weights_of(frozen_stages(own, stream, PLACE, ahead))
    assert frozen.keys() == ahead.keys()
    torch.testing.assert_close(frozen["layer2.0.conv1.weight"], ahead["layer2.0.conv1.weight"].double())


def test_features_are_made_once_for_all_rows_and_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, run = setting(train=1, weights=weights(tmp_path)), prepared()
    assert run.loop(own, [0]).data.stream is run.loop(own, [1]).data.stream
    assert run.loop(own, [0]).data.stream is not run.data(own, [0]).stream
    assert isinstance(run.seen(own).scale.frozen, nn.Module)
