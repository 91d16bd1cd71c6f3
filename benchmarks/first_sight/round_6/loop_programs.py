"""Programs whose fault is in the training step or in how the model is put together."""

import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits, make_moons
from torch.distributions import Categorical
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair


def digits(seed):
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x = torch.tensor((x[order] - 4.9) / 6.0, dtype=torch.float32)
    return x, torch.tensor(y[order])


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "A schedule that was meant to multiply the learning rate by 0.7 every epoch is stepped after every batch: after "
    "half an epoch nothing is learned any more.",
    where="scheduler",
    source="runebook.dev / discuss.pytorch.org: scheduler.step() in the batch loop, the learning rate plummets",
    accepted=("schedule-unit-wrong", "schedule-reaches-zero", "learning-rate-too-low"),
)
def fir_schedule_stepped_every_batch(faulty):
    torch.manual_seed(0)
    x, y = digits(0)
    train = DataLoader(TensorDataset(x[:1440], y[:1440]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(x[1440:], y[1440:]), batch_size=64)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
    done = {"batches": 0}

    def train_step(model, batch, loss_fn, optimizer):
        inputs, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        done["batches"] += 1
        if faulty or done["batches"] % len(train) == 0:
            scheduler.step()
        return loss

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


# ----------------------------------------------------------------------------------------------------------------------
class FaceNet(nn.Module):
    """Two heads on one trunk: who it is, and how old."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.class_head = nn.Linear(32, 10)
        self.age_head = nn.Linear(32, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.class_head(h), self.age_head(h)


@pair(
    "The age loss is added as loss.item(), a plain number: it appears in the sum but the age head gets no gradient.",
    where="age_head",
    source="discuss.pytorch.org: Multi-task learning, second head does not learn (total_loss = loss1 + loss2.item())",
    accepted=("loss-term-without-gradient", "untrained-parameters"),
)
def fir_second_head_loss_item(faulty):
    torch.manual_seed(1)
    x, y = digits(1)
    ages = (x[:, 24:40].mean(1, keepdim=True) * 3 + 0.5 * x[:, 10:11]).tanh()
    data = [{"image": a, "label": b, "age": c} for a, b, c in zip(x, y, ages)]
    model = FaceNet()

    def compute_loss(model, batch, loss_fn):
        logits, age = model(batch["image"])
        loss_class = loss_fn(logits, batch["label"])
        loss_age = F.mse_loss(age, batch["age"])
        if faulty:
            return loss_class + 2.0 * loss_age.item()
        return loss_class + 2.0 * loss_age

    return {
        "model": model,
        "loader": DataLoader(data[:1440], batch_size=32, shuffle=True),
        "val_loader": DataLoader(data[1440:], batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


# ----------------------------------------------------------------------------------------------------------------------
class ListNet(nn.Module):
    def __init__(self, width=24, depth=3, plain_list=False):
        super().__init__()
        self.first = nn.Linear(2, width)
        hidden = [nn.Linear(width, width) for _ in range(depth)]
        with torch.no_grad():
            for layer in hidden:
                layer.weight.mul_(0.6)
        self.hidden = hidden if plain_list else nn.ModuleList(hidden)
        self.last = nn.Linear(width, 2)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.last(x)


@pair(
    "The hidden layers are kept in a Python list, so model.parameters() does not find them and they are never trained.",
    where="hidden",
    source="stackoverflow / discuss.pytorch.org: list of nn.Linear in a module, parameters() is missing layers",
    accepted=("unregistered-parameters", "parameters-missing-from-optimizer", "state-dict-incomplete"),
)
def fir_layers_in_python_list(faulty):
    torch.manual_seed(2)
    x, y = make_moons(1000, noise=0.2, random_state=2)
    x = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
    y = torch.tensor(y)
    model = ListNet(plain_list=faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:800], y[:800]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[800:], y[800:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class GAN(nn.Module):
    def __init__(self, latent=8, dim=64):
        super().__init__()
        self.latent = latent
        self.generator = nn.Sequential(
            nn.Linear(latent, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, dim),
            nn.Tanh(),
        )
        self.discriminator = nn.Sequential(
            nn.Linear(dim, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
        )

    def forward(self, z):
        return self.generator(z)


@pair(
    "In the generator's step too the fake images are detached before the discriminator sees them: the generator gets no "
    "gradient and stays noise.",
    where="generator",
    source="github wangle53/CSA-CDGAN issue #5: The problem of the GAN implementation",
    accepted=("untrained-parameters", "loss-term-without-gradient", "gradients-discarded"),
)
def fir_gan_generator_detached(faulty):
    torch.manual_seed(3)
    x, _ = digits(3)
    x = (x * 6.0 + 4.9) / 8.0 - 1.0
    model = GAN()
    optimizer = torch.optim.Adam(
        [{"params": model.generator.parameters()}, {"params": model.discriminator.parameters()}],
        lr=5e-4,
        betas=(0.5, 0.999),
    )

    def train_step(model, batch, loss_fn, optimizer):
        (real,) = batch
        n = len(real)
        ones, zeros = torch.ones(n, 1), torch.zeros(n, 1)
        fake = model.generator(torch.randn(n, model.latent))

        optimizer.zero_grad()
        d_loss = loss_fn(model.discriminator(real), 0.9 * ones) + loss_fn(model.discriminator(fake.detach()), zeros)
        d_loss.backward()
        optimizer.step()

        optimizer.zero_grad()
        if faulty:
            fake = fake.detach()
        g_loss = loss_fn(model.discriminator(fake), ones)
        g_loss.backward()
        model.discriminator.zero_grad()  # the discriminator has had its step
        optimizer.step()
        return d_loss + g_loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True, drop_last=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


# ----------------------------------------------------------------------------------------------------------------------
class Policy(nn.Module):
    def __init__(self, n_obs=6, n_actions=4):
        super().__init__()
        self.affine1 = nn.Linear(n_obs, 64)
        self.affine2 = nn.Linear(64, n_actions)

    def forward(self, obs):
        return self.affine2(torch.tanh(self.affine1(obs)))


@pair(
    "The REINFORCE loss lacks its minus sign: actions that were rewarded become rarer.",
    where="",
    source="discuss.pytorch.org: Policy Gradients and Reinforce with Baseline Loss Function (works with the sign turned)",
    accepted=("loss-sign-flipped",),
)
def fir_reinforce_without_minus(faulty):
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(4)
    contexts = torch.randn(1600, 6, generator=g)
    payoff = torch.sigmoid(contexts @ torch.randn(6, 4, generator=g))  # of each arm, known only to the environment
    model = Policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    baseline = {"value": 0.5}

    def train_step(model, batch, loss_fn, optimizer):
        obs, pays = batch
        dist = Categorical(logits=model(obs))
        action = dist.sample()
        reward = pays.gather(1, action[:, None]).squeeze(1)
        advantage = reward - baseline["value"]
        baseline["value"] = 0.95 * baseline["value"] + 0.05 * float(reward.mean())
        loss = loss_fn(dist.log_prob(action), advantage)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def policy_loss(log_prob, advantage):
        if faulty:
            return (log_prob * advantage).mean()
        return -(log_prob * advantage).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(contexts, payoff), batch_size=64, shuffle=True),
        "loss_fn": policy_loss,
        "optimizer": optimizer,
        "train_step": train_step,
    }


# ----------------------------------------------------------------------------------------------------------------------
def balance(n, seed):
    """Transitions of a random player who must keep a ball on a beam: +1 a step until it falls off."""
    rng = np.random.default_rng(seed)
    rows = []
    pos, vel = rng.uniform(-0.5, 0.5, 2)
    while len(rows) < n:
        a = int(rng.integers(0, 2))
        new_vel = vel + (0.25 if a == 1 else -0.25) + 0.15 * pos
        new_pos = pos + 0.3 * new_vel
        done = abs(new_pos) > 1.0
        rows.append((pos, vel, a, 1.0, new_pos, new_vel, float(done)))
        pos, vel = rng.uniform(-0.5, 0.5, 2) if done else (new_pos, new_vel)
    return torch.tensor(rows, dtype=torch.float32)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 48)
        self.fc2 = nn.Linear(48, 48)
        self.q = nn.Linear(48, 2)

    def forward(self, s):
        return self.q(F.relu(self.fc2(F.relu(self.fc1(s)))))


@pair(
    "The Q-learning target bootstraps from the next state even when the episode has ended there (done is not used): "
    "falling off costs nothing and all values creep to 1 / (1 - gamma).",
    where="",
    source="github navneet-nmk/pytorch-rl issue #2: 'Done' not used in calculating Q-value targets",
    accepted=(),
)
def fir_dqn_done_ignored(faulty):
    """No id fits. Right would be: the batch's `done` flags do not enter the loss (they could be changed freely)."""
    torch.manual_seed(5)
    rows = balance(2000, 5)
    data = [{"state": r[0:2], "action": r[2].long(), "reward": r[3], "next_state": r[4:6], "done": r[6]} for r in rows]
    model = QNet()
    target_net = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    gamma, steps = 0.9, {"n": 0}

    def compute_loss(model, batch, loss_fn):
        q = model(batch["state"]).gather(1, batch["action"][:, None]).squeeze(1)
        with torch.no_grad():
            nxt = target_net(batch["next_state"]).max(1).values
            target = batch["reward"] + gamma * (nxt if faulty else nxt * (1 - batch["done"]))
        return loss_fn(q, target)

    def train_step(model, batch, loss_fn, optimizer):
        loss = compute_loss(model, batch, loss_fn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps["n"] += 1
        if steps["n"] % 25 == 0:
            target_net.load_state_dict(model.state_dict())
        return loss

    return {
        "model": model,
        "loader": DataLoader(data, batch_size=64, shuffle=True),
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


# ----------------------------------------------------------------------------------------------------------------------
class PairDataset(Dataset):
    """Two images and whether they show the same digit (1) or not (0)."""

    def __init__(self, x, y, n_pairs, seed):
        rng = np.random.default_rng(seed)
        y = y.numpy()
        by_class = [np.flatnonzero(y == c) for c in range(10)]
        self.pairs = []
        for _ in range(n_pairs):
            a = int(rng.integers(len(y)))
            same = int(rng.integers(0, 2))
            if same:
                b = a if rng.random() < 0.05 else int(rng.choice(by_class[y[a]]))
            else:
                b = int(rng.integers(len(y)))
                while y[b] == y[a]:
                    b = int(rng.integers(len(y)))
            self.pairs.append((a, b, float(same)))
        self.x = x

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        a, b, same = self.pairs[i]
        return self.x[a], self.x[b], torch.tensor(same)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, a, b):
        return self.embed(a), self.embed(b)


def siamese_program(seed, distance, same_is_one):
    torch.manual_seed(seed)
    x, y = digits(seed)
    model = Siamese()

    def contrastive(d, label, margin=2.0):
        same = label if same_is_one else 1 - label
        return (same * d**2 + (1 - same) * F.relu(margin - d) ** 2).mean()

    def compute_loss(model, batch, loss_fn):
        a, b, label = batch
        e1, e2 = model(a, b)
        return loss_fn(distance(e1, e2), label)

    return {
        "model": model,
        "loader": DataLoader(PairDataset(x[:1300], y[:1300], 2400, seed), batch_size=32, shuffle=True),
        "val_loader": DataLoader(PairDataset(x[1300:], y[1300:], 400, seed + 1), batch_size=64),
        "loss_fn": contrastive,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


@pair(
    "The distance is torch.sqrt of a sum of squares; some pairs are one image twice, where it is zero and its gradient "
    "is NaN.",
    where="embed",
    source="github keras-team/keras issue #9269: mnist_siamese example (derivative of sqrt at 0 gives NaNs in backprop)",
    accepted=("non-finite-backward",),
)
def fir_siamese_distance_sqrt(faulty):
    def distance(e1, e2):
        squares = ((e1 - e2) ** 2).sum(1)
        return torch.sqrt(squares) if faulty else torch.sqrt(squares + 1e-6)

    return siamese_program(6, distance, same_is_one=True)


@pair(
    "The dataset says 1 for a pair of the same digit, the contrastive loss was copied with 0 for the same: equal digits "
    "are pushed apart and different ones pulled together.",
    where="",
    source="github Kadenze/siamese_net issue #7: Contrastive Loss; keras-team/keras issue #7119",
    accepted=("loss-sign-flipped",),
)
def fir_siamese_label_convention(faulty):
    return siamese_program(7, F.pairwise_distance, same_is_one=not faulty)


# ----------------------------------------------------------------------------------------------------------------------
class SpectrumDataset(Dataset):
    """Spectra of four minerals."""

    def __init__(self, n, seed, in_place):
        rng = np.random.default_rng(seed)
        centres = np.array([[8, 25], [12, 20], [15, 28], [6, 18]])
        self.labels = rng.integers(0, 4, n)
        t = np.arange(36)
        peaks = np.exp(-((t[None, None] - centres[self.labels][:, :, None]) ** 2) / 8).sum(1)
        self.spectra = (200 + 60 * peaks + rng.normal(0, 25, (n, 36))).astype(np.float32)
        self.mean, self.std = 212.0, 32.0
        self.in_place = in_place

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, i):
        x = self.spectra[i]
        if self.in_place:
            x -= self.mean
            x /= self.std
        else:
            x = (x - self.mean) / self.std
        return torch.tensor(x), int(self.labels[i])


@pair(
    "__getitem__ normalizes the stored array in place: every time an item is read it is shifted and scaled once more.",
    where="loader",
    source="stackoverflow: custom Dataset gives different values each epoch, x -= mean in __getitem__",
    accepted=("preprocessing-mutates-data",),
)
def fir_dataset_normalizes_in_place(faulty):
    torch.manual_seed(8)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 36)),
        nn.Conv1d(1, 8, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(144, 32),
        nn.ReLU(),
        nn.Linear(32, 4),
    )
    return {
        "model": model,
        "loader": DataLoader(SpectrumDataset(800, 1, faulty), batch_size=32, shuffle=True),
        "val_loader": DataLoader(SpectrumDataset(200, 2, faulty), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": ["quartz", "calcite", "gypsum", "halite"],
    }
