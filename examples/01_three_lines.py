"""Predicted gradients in your own training loop: three lines.

python examples/01_three_lines.py
"""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from gradcast import GradientLearner

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
unlabelled = torch.rand(1000, 64)

model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
learner = GradientLearner(classes=10)  # the published constants for MNIST

for _ in range(500):
    batch, pool = torch.randint(1000, (10,)), torch.randint(1000, (4,))
    optimizer.zero_grad()
    z = model(x[batch])
    z.retain_grad()  # the learner wants dloss/dz
    cross_entropy(z, y[batch]).backward()
    assert z.grad is not None

    learner.learn(z, z.grad, y[batch], eta=0.1)  # one step of h on labelled logits
    z_u = model(unlabelled[pool])
    z_u.backward(learner.predict(z_u))  # its prediction stands in for dloss/dz where labels are missing

    optimizer.step()

accuracy = (model(x[1000:]).argmax(1) == y[1000:]).float().mean()
print(f"accuracy on held-out digits: {accuracy:.1%}")
