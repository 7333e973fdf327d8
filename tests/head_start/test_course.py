import torch

from gradcast.head_start.course import features, take_over
from tests.head_start.scene import course, mlp, pixels, resnet


def test_keys_tell_apart_what_decides_a_result_and_nothing_else() -> None:
    own = course().keys([0, 1])
    assert own[0] != own[1]
    assert course().keys([1, 0]) == own[::-1]
    others = [
        course(steps=7),
        course(lr=0.3),
        course(signal="rotation"),
        course(resnet),
        course(images=pixels(seed=1)),
        course(identity="shown otherwise"),
    ]
    found = {other.keys([0])[0] for other in others}
    assert len(found) == len(others)
    assert own[0] not in found


def test_the_output_layer_stays_and_all_else_is_taken_over() -> None:
    own = course(resnet)
    ahead, model = own.model([7, 8]), own.model([0, 1])
    with torch.no_grad():
        ahead.buffers["bn1.running_mean"] += 3
    before = model.parameters(model.theta.clone())
    take_over(model, {name: rows.clone() for name, rows in features(ahead).items()})
    after, theirs = model.parameters(model.theta), ahead.parameters(ahead.theta)
    for name, rows in after.items():
        assert torch.equal(rows, before[name] if name.startswith("linear.") else theirs[name]), name
    assert torch.equal(model.buffers["bn1.running_mean"], ahead.buffers["bn1.running_mean"])
    assert "linear.weight" not in features(model)
    assert list(features(course(mlp).model([0]))) == ["1.layers.0.weight", "1.layers.0.bias"]
