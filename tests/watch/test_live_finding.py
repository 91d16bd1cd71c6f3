"""A finding appears while the training goes on, with the step at which it was first seen, in a real kernel."""

from __future__ import annotations

import json

import pytest

from tests.test_magics import run

SETUP = """
import json, time, torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
torch.manual_seed(0)
data = load_digits()
inputs, labels = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
live = nbdebug.watch(model, optimizer).start()
view = nbdebug.show_live(live)
view
"""

# The learning rate goes wrong at a step of its own; the loop ends when the view has told so, or gives up.
LOOP = """
WRONG, begun, seen = 200, time.monotonic(), []
while not seen and time.monotonic() - begun < 120:
    if live.step == WRONG:
        optimizer.param_groups[0]["lr"] = 1e8
    rows = torch.randint(0, len(inputs), (64,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
    optimizer.step()
    if live.step % 20 == 0:
        seen = view.data["findings"]
print(json.dumps({"seen": seen, "running": live.is_running, "steps": live.step}))
"""

AFTER = """
live.stop()
hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
print(json.dumps({"findings": view.data["findings"], "steps": live.step, "hooks": hooks}))
"""


@pytest.mark.kernel
def test_a_finding_appears_in_the_middle_of_a_run_with_its_step() -> None:
    _, during, after = run(SETUP, LOOP, AFTER)
    told, last = json.loads(during), json.loads(after)
    assert told["running"] and told["seen"]
    first = told["seen"][0]
    assert 200 < first["step"] <= told["steps"] and first["severity"] in ("bug", "suspect")
    kept = {finding["check"]: finding["step"] for finding in last["findings"]}
    assert kept[first["check"]] == first["step"]  # judged again at the end, and still where it was first seen
    assert last["steps"] == told["steps"] and last["hooks"] == 0
