"""Times a step of `posteriors` (PyTorch); runs in an environment that has it and not us.

    python posteriors_peer.py mlp|lenet STEPS REPEATS

Prints {"SGLD": [seconds a step, ...], "SGHMC": ...}. The networks and minibatches of
`benchmarks/speed/sgmcmc.py`; N(0, 1) on every weight.
"""

import json
import sys
import time

import posteriors
import torch
from torch import nn

STEP_SIZE = 1e-8
case, steps, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
if case == "mlp":
    rows, size = 50_000, 64
    x = torch.randn(rows, 8)
    y = torch.sin(x[:, :1])
    net = nn.Sequential(nn.Linear(8, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1))
else:
    rows, size = 10_000, 128
    x = torch.randn(rows, 1, 28, 28)
    y = torch.randint(10, (rows,))
    layers: list[nn.Module] = []
    for channels, features in ((1, 6), (6, 16), (16, 120)):
        layers += [nn.Conv2d(channels, features, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(480, 84), nn.ReLU(), nn.Linear(84, 10))


def log_posterior(parameters, batch):
    """log p(y, w) of all rows, estimated on the batch."""
    inputs, targets = batch
    out = torch.func.functional_call(net, parameters, (inputs,))
    if case == "mlp":
        log_p = -0.5 * (((out - targets) / 0.5) ** 2).sum()
    else:
        log_p = -nn.functional.cross_entropy(out, targets, reduction="sum")
    prior = sum(-0.5 * (value**2).sum() for value in parameters.values())
    return log_p * (rows / size) + prior, torch.tensor([])


def seconds(transform):
    """For a step, the mean over one run."""
    state = transform.init({name: p.detach().clone() for name, p in net.named_parameters()})
    indices = torch.randint(rows, (steps, size))
    began = time.perf_counter()
    for chosen in indices:
        state, _ = transform.update(state, (x[chosen], y[chosen]))
    return (time.perf_counter() - began) / steps


transforms = {
    "SGLD": posteriors.sgmcmc.sgld.build(log_posterior, lr=STEP_SIZE),
    "SGHMC": posteriors.sgmcmc.sghmc.build(log_posterior, lr=STEP_SIZE**0.5, alpha=0.1),
}
for transform in transforms.values():
    seconds(transform)
print(json.dumps({name: [seconds(t) for _ in range(repeats)] for name, t in transforms.items()}))
