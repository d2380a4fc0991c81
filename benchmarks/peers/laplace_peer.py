"""Times `laplace-torch` on given weights; runs in an environment that has it and not us.

    python laplace_peer.py GIVEN.npz PRECISION DRAWS REPEATS THREADS

Prints {"kfac": {"fit": [seconds, ...], "predict": [...], ...}, "last layer": ...}; see
`benchmarks/speed/laplace.py`.
"""

import json
import sys
import time

import numpy as np
import torch
from laplace import Laplace
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

path, precision, draws, repeats, threads = sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:])
torch.set_num_threads(threads)
torch.manual_seed(0)
given = np.load(path)
x, x_test = (torch.tensor(given[name], dtype=torch.float32) for name in ("x", "x_test"))
y, y_test = (torch.tensor(given[name].astype(np.int64)) for name in ("y", "y_test"))
net = nn.Sequential(
    nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
)
with torch.no_grad():
    for number, layer in enumerate(layer for layer in net if isinstance(layer, nn.Linear)):
        layer.weight.copy_(torch.tensor(given[f"Dense_{number}.kernel"].T))
        layer.bias.copy_(torch.tensor(given[f"Dense_{number}.bias"]))
loader = DataLoader(TensorDataset(x, y), batch_size=256)

cases = {
    "kfac": {"subset_of_weights": "all", "hessian_structure": "kron"},
    "last layer": {"subset_of_weights": "last_layer", "hessian_structure": "full"},
}
found = {}
for name, settings in cases.items():
    row = {"fit": [], "predict": [], "predict probit": []}
    for _ in range(repeats + 1):
        began = time.perf_counter()
        law = Laplace(net, "classification", prior_precision=precision, **settings)
        law.fit(loader)
        evidence = law.log_marginal_likelihood()
        row["fit"].append(time.perf_counter() - began)
        for key, how in (
            ("predict probit", {"link_approx": "probit"}),
            ("predict", {"link_approx": "mc", "n_samples": draws}),
        ):
            began = time.perf_counter()
            p = torch.cat([law(part, pred_type="glm", **how) for part in x_test.split(100)])
            row[key].append(time.perf_counter() - began)
    chosen = p[torch.arange(len(p)), y_test].clamp_min(1e-30)
    found[name] = {
        **row,
        "log_evidence": float(evidence),
        "nll": float(-chosen.log().mean()),
    }
print(json.dumps(found))
