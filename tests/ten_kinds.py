"""Ten broken programs of ten kinds, each as the cell that a user would have, with the cause that is in it."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "Kind"]

HEAD = """
import torch, torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.optim import SGD, Adam
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
labels = torch.tensor(labels)
"""


@dataclass(frozen=True)
class Kind:
    """One program: its cell, the arguments of the wizard, and the checks of which any names the cause.

    `is_fixed` is whether one of its fixes can be tried on a copy, and helps.
    """

    name: str
    code: str
    arguments: str
    causes: tuple[str, ...]
    is_fixed: bool = True

    @property
    def cell(self) -> str:
        """The whole cell."""
        return HEAD + self.code

    def made(self) -> dict[str, Any]:
        """Run the cell here, with its source at hand as in a notebook, and return the wizard's arguments."""
        name = f"<cell of {self.name}>"
        lines = self.cell.splitlines(keepends=True)
        linecache.cache[name] = (len(self.cell), None, lines, name)
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(self.cell, name, "exec"), space)
        made: dict[str, Any] = eval(f"dict({self.arguments})", space)
        return made


KINDS = (
    Kind(
        "image",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 16, 3, padding=1), nn.Linear(16 * 16, 10)
    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv(x)), 2)
        return torch.softmax(self.head(x.flatten(1)), dim=0)
model, loader = Net(), DataLoader(TensorDataset(images, labels), 64, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=Adam(model.parameters(), 1e-3)",
        ("softmax-over-wrong-dim",),
    ),
    Kind(
        "text",
        """
words = torch.randint(1, 200, (1200, 12))
sentiment = (words < 60).sum(1).gt(3).long()
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(200, 16), nn.Linear(16, 16), nn.Linear(16, 2)
    def forward(self, x):
        h = self.embed(x).mean(1).detach()
        return self.head(torch.relu(self.hidden(h)))
model, loader = Bag(), DataLoader(TensorDataset(words, sentiment), 32, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=Adam(model.parameters(), 3e-3)",
        ("untrained-parameters",),
    ),
    Kind(
        "table",
        """
table, cancer = load_breast_cancer(return_X_y=True)
x, y = torch.tensor(table, dtype=torch.float32), torch.tensor(cancer)
model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=SGD(model.parameters(), 0.5)",
        ("unnormalized-inputs", "feature-scales-differ", "learning-rate-too-high"),
    ),
    Kind(
        "segmentation",
        """
masks = (images > 0.5).float()
class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 1)
    def forward(self, x):
        return torch.sigmoid(self.up(torch.relu(self.down(x))))
model, loader = Segmenter(), DataLoader(TensorDataset(images, masks), 32, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.BCEWithLogitsLoss(), optimizer=Adam(model.parameters(), 1e-3)",
        ("sigmoid-before-bce-with-logits",),
    ),
    Kind(
        "language model",
        """
text = (torch.arange(600).unsqueeze(1) + torch.arange(13)) % 11
class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(11, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 11)
    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])
def compute_loss(model, batch, loss_fn):
    return F.cross_entropy(model(batch[0]).reshape(-1, 11), batch[0].reshape(-1))
model, loader = Lm(), DataLoader(TensorDataset(text), 32, shuffle=True)
""",
        "model=model, loader=loader, compute_loss=compute_loss, optimizer=Adam(model.parameters(), 1e-3)",
        ("unshifted-targets", "visible-tokens-predicted"),
        is_fixed=False,
    ),
    Kind(
        "GAN",
        """
real = torch.randn(512, 2) * 0.3 + torch.tensor([2.0, 1.0])
gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g, opt_c = (Adam(m.parameters(), 1e-3) for m in (gen, critic))
def train_step(models, batch, loss_fn, optimizers):
    gen, critic = models["gen"], models["critic"]
    bce, x = F.binary_cross_entropy_with_logits, batch[0]
    fake = gen(torch.randn(len(x), 4))
    loss_c = bce(critic(x), torch.ones(len(x), 1)) + bce(critic(fake.detach()), torch.zeros(len(x), 1))
    optimizers["critic"].zero_grad()
    loss_c.backward()
    optimizers["critic"].step()
    loss_g = bce(critic(fake.detach()), torch.ones(len(x), 1))
    optimizers["gen"].zero_grad()
    loss_g.backward()
    optimizers["gen"].step()
    return loss_c
loader = DataLoader(TensorDataset(real), 64, shuffle=True)
""",
        "model={'gen': gen, 'critic': critic}, loader=loader, optimizer={'gen': opt_g, 'critic': opt_c},"
        " train_step=train_step",
        ("untrained-parameters", "gradients-discarded"),
        is_fixed=False,
    ),
    Kind(
        "NaN",
        """
images[17, 0, 3, 3] = float("nan")
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
loader = DataLoader(TensorDataset(images, labels), 64, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=Adam(model.parameters(), 1e-3)",
        ("non-finite-inputs",),
    ),
    Kind(
        "crash",
        """
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10))
loader = DataLoader(TensorDataset(images, labels), 64, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=Adam(model.parameters(), 1e-3)",
        ("forward-fails",),
        is_fixed=False,
    ),
    Kind(
        "custom loop",
        """
def train_step(model, batch, loss_fn, optimizer):
    x, y = batch
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
loader = DataLoader(TensorDataset(images, labels), 64, shuffle=True)
""",
        "model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), train_step=train_step,"
        " optimizer=Adam(model.parameters(), 1e-3)",
        ("step-never-taken",),
    ),
    Kind(
        "dict batches",
        """
class Digits(Dataset):
    def __len__(self):
        return len(images)
    def __getitem__(self, i):
        return {"image": images[i], "label": labels[(i * 7 + 3) % len(labels)]}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    def forward(self, image):
        return self.net(image)
def compute_loss(model, batch, loss_fn):
    return F.cross_entropy(model(batch["image"]), batch["label"])
model, loader = Net(), DataLoader(Digits(), 64, shuffle=True)
""",
        "model=model, loader=loader, compute_loss=compute_loss, optimizer=Adam(model.parameters(), 1e-3)",
        ("labels-unrelated-to-inputs",),
        is_fixed=False,  # no patch knows which label belongs to which image
    ),
)
