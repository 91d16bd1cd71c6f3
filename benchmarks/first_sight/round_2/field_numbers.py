"""Ordinal, survival and tabular models, series, symmetry, physics and policies."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_friedman1
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_2.fheld_data import digit_tensors, survival, wave_windows


def _graded(n, seed):
    x, y = make_friedman1(n, n_features=8, noise=1.5, random_state=seed)
    grade = np.digitize(y, [9.0, 12.5, 15.5, 19.0])
    return torch.tensor(x * 2 - 1, dtype=torch.float32), torch.tensor(grade)


@sound(
    "ordinal regression with five grades: four logits per sample and the CORN conditional loss",
    source="coral-pytorch CORN tutorial",
)
def coral_corn_ordinal():
    from coral_pytorch.losses import CornLoss

    torch.manual_seed(0)
    (x, y), (vx, vy) = _graded(1200, 0), _graded(300, 1)
    model = nn.Sequential(
        nn.Linear(8, 48), nn.BatchNorm1d(48), nn.LeakyReLU(), nn.Linear(48, 48), nn.LeakyReLU(), nn.Linear(48, 4)
    )
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": CornLoss(num_classes=5),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "discrete-time survival: logistic hazards over eight intervals with censoring",
    source="pycox LogisticHazard example",
)
def pycox_logistic_hazard():
    from pycox.models.loss import NLLLogistiHazardLoss

    torch.manual_seed(0)
    x, t, e = survival(1500)
    vx, vt, ve = survival(400, 1)
    cuts = torch.quantile(t, torch.linspace(0, 1, 9)[1:-1])
    bins, vbins = torch.bucketize(t, cuts), torch.bucketize(vt, cuts)
    model = nn.Sequential(
        nn.Linear(6, 24),
        nn.ReLU(),
        nn.BatchNorm1d(24),
        nn.Dropout(0.2),
        nn.Linear(24, 24),
        nn.ReLU(),
        nn.BatchNorm1d(24),
        nn.Dropout(0.2),
        nn.Linear(24, 8),
    )
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, bins, e.float()), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vbins, ve.float()), batch_size=100),
        "loss_fn": NLLLogistiHazardLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0]), batch[1], batch[2]),
    }


@sound(
    "TabNet network: the forward pass gives logits and a sparsity loss that is subtracted; ghost batch norm; class weights on purpose",
    source="dreamquark-ai/tabnet (TabNetClassifier._train_batch)",
)
def tabnet_sparsity_weighted():
    from pytorch_tabnet.tab_network import TabNet

    torch.manual_seed(0)
    r = np.random.RandomState(0)
    x = r.normal(size=(1500, 10)).astype(np.float32)
    s = x[:, 0] * 1.5 + np.where(x[:, 3] > 0, x[:, 1], -x[:, 2])
    y = np.digitize(s, [0.6, 2.2])  # the last class is rare
    x, y = torch.tensor(x), torch.tensor(y)
    group = torch.eye(10)
    model = TabNet(
        10, 3, n_d=8, n_a=8, n_steps=3, gamma=1.3, virtual_batch_size=64, momentum=0.05, group_attention_matrix=group
    )
    counts = torch.bincount(y[:1200]).float()

    def compute_loss(model, batch, loss_fn):
        out, m_loss = model(batch[0])
        return loss_fn(out, batch[1]) - 1e-3 * m_loss

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        for p in model.parameters():
            p.grad = None
        loss = compute_loss(model, batch, loss_fn)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=128, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(weight=counts.sum() / (3 * counts)),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-2),
        "train_step": train_step,
        "compute_loss": compute_loss,
    }


class Forecaster(nn.Module):
    """Causal TCN over the past; the last step tells the whole horizon."""

    def __init__(self, horizon):
        from pytorch_tcn import TCN

        super().__init__()
        self.tcn = TCN(
            num_inputs=1,
            num_channels=[16, 16, 16, 16],
            kernel_size=3,
            dropout=0.05,
            causal=True,
            use_norm="weight_norm",
            use_skip_connections=True,
            input_shape="NLC",
        )
        self.out = nn.Linear(16, horizon)

    def forward(self, x):
        return self.out(self.tcn(x)[:, -1]).unsqueeze(-1)


@sound("causal TCN with weight norm and skip connections forecasting a wave", source="pytorch-tcn README")
def tcn_weight_norm_forecast():
    torch.manual_seed(0)
    (x, y), (vx, vy) = wave_windows(1200), wave_windows(200, seed=1)
    model = Forecaster(12)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.HuberLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class PastFuture(Dataset):
    def __init__(self, n, seed):
        self.x, self.y = wave_windows(n, seed=seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"past_values": self.x[i] * 20 + 100, "future_values": self.y[i] * 20 + 100}


@sound(
    "PatchTST with its own instance scaling on raw values around 100; the model scales back and returns a squared error in raw units",
    source="transformers PatchTSTForPrediction",
)
def hf_patchtst_raw_scale():
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    torch.manual_seed(0)
    model = PatchTSTForPrediction(
        PatchTSTConfig(
            num_input_channels=1,
            context_length=48,
            prediction_length=12,
            patch_length=8,
            patch_stride=4,
            d_model=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            loss="mse",
            scaling="std",
            dropout=0.0,
            head_dropout=0.0,
        )
    )
    return {
        "model": model,
        "loader": DataLoader(PastFuture(1000, 0), batch_size=32, shuffle=True),
        "val_loader": DataLoader(PastFuture(200, 1), batch_size=50),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


class EquivariantPolynomial(nn.Module):
    """Two tensor-product layers over the edges of a small point cloud; eight scalars out."""

    def __init__(self, classes=8):
        from e3nn import o3

        super().__init__()
        self.irreps_sh = o3.Irreps.spherical_harmonics(2)
        mid = o3.Irreps("16x0e + 4x1e + 6x1o + 4x2e + 4x2o")
        self.tp1 = o3.FullyConnectedTensorProduct(self.irreps_sh, self.irreps_sh, mid)
        self.tp2 = o3.FullyConnectedTensorProduct(mid, self.irreps_sh, "32x0e + 16x0o")
        self.head = nn.Sequential(nn.Linear(32 + 16 * 2, 48), nn.SiLU(), nn.Linear(48, classes))

    def forward(self, pos):
        from e3nn import o3

        b, n, _ = pos.shape
        rel = pos[:, :, None] - pos[:, None]
        near = ((rel.norm(dim=-1) < 1.3) & ~torch.eye(n, dtype=torch.bool)).unsqueeze(-1)
        sh = o3.spherical_harmonics(self.irreps_sh, rel, normalize=True, normalization="component") * near
        node = sh.sum(2) / 2
        for tp in (self.tp1, self.tp2):  # messages from node j to node i
            node = (tp(node[:, None].expand(-1, n, -1, -1), sh) * near).sum(2) / 2
        f = node.sum(1) / 2
        even, odd = f[:, :32], f[:, 32:]
        return self.head(torch.cat([even, odd, odd.abs()], 1))


def tetrominoes(n, seed):
    from scipy.spatial.transform import Rotation

    shapes = np.array(
        [
            [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)],
            [(1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 0, 1)],
            [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)],
            [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)],
            [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)],
            [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)],
            [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1)],
            [(0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0)],
        ],
        dtype=float,
    )
    r = np.random.RandomState(seed)
    y = r.randint(8, size=n)
    rot = Rotation.random(n, random_state=seed).as_matrix()
    pos = np.einsum("nij,nkj->nki", rot, shapes[y]) + r.normal(0, 0.04, (n, 4, 3))
    return torch.tensor(pos, dtype=torch.float32), torch.tensor(y)


@sound(
    "rotation-equivariant network on randomly rotated tetrominoes, two of them mirror images",
    source="e3nn tetris_polynomial example",
)
def e3nn_tetris():
    torch.manual_seed(0)
    (x, y), (vx, vy) = tetrominoes(800, 0), tetrominoes(200, 1)
    model = EquivariantPolynomial()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound(
    "Real NVP with zero-initialised coupling nets and forward KL; Adamax as in the example",
    source="normflows README / examples/real_nvp.ipynb",
)
def normflows_realnvp():
    import normflows as nf
    from sklearn.datasets import make_moons

    torch.manual_seed(0)
    flows = []
    for _ in range(8):
        flows.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 48, 48, 2], init_zeros=True)))
        flows.append(nf.flows.Permute(2, mode="swap"))
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows)
    x = torch.tensor(make_moons(1200, noise=0.06, random_state=0)[0], dtype=torch.float32)
    v = torch.tensor(make_moons(300, noise=0.06, random_state=1)[0], dtype=torch.float32)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(v), batch_size=100),
        "optimizer": torch.optim.Adamax(model.parameters(), lr=3e-3, weight_decay=1e-5),
        "compute_loss": lambda model, batch, loss_fn: model.forward_kld(batch[0]),
    }


@sound(
    "physics-informed network for the heat equation: residual at collocation points plus initial and boundary values; no targets in the data",
    source="PINN, Raissi et al., in plain PyTorch",
)
def pinn_heat_equation():
    torch.manual_seed(0)
    points = torch.rand(1200, 2)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def compute_loss(model, batch, loss_fn):
        with torch.enable_grad():
            p = batch[0].clone().requires_grad_(True)  # (x, t)
            u = model(p)
            g = torch.autograd.grad(u, p, torch.ones_like(u), create_graph=True)[0]
            u_xx = torch.autograd.grad(g[:, :1], p, torch.ones_like(u), create_graph=True)[0][:, :1]
            residual = g[:, 1:] - 0.1 * u_xx
        x, t = batch[0][:, :1], batch[0][:, 1:]
        zero, one = torch.zeros_like(x), torch.ones_like(x)
        start = model(torch.cat([x, zero], 1)) - torch.sin(torch.pi * x)
        walls = model(torch.cat([zero, t], 1)) ** 2 + model(torch.cat([one, t], 1)) ** 2
        return (residual**2).mean() + 10 * (start**2).mean() + 10 * walls.mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(points), batch_size=100, shuffle=True),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }


def cartpole_expert(n, seed):
    """Cart-pole states and the side a linear controller pushes to."""
    r = np.random.RandomState(seed)
    s = r.uniform(-1, 1, (n, 4)) * np.array([2.0, 2.0, 0.2, 2.0])
    push = (0.3 * s[:, 0] + 0.6 * s[:, 1] + 9 * s[:, 2] + 1.5 * s[:, 3] + r.normal(0, 0.2, n)) > 0
    return torch.tensor(s, dtype=torch.float32), torch.tensor(push).long()


@sound(
    "behaviour cloning of an ActorCriticPolicy: negative log-likelihood less an entropy bonus; the value head is left untrained",
    source="stable-baselines3 policies; imitation's BC loss",
)
def sb3_behaviour_cloning():
    import gymnasium as gym
    from stable_baselines3.common.policies import ActorCriticPolicy

    torch.manual_seed(0)
    (s, a), (vs, va) = cartpole_expert(1200, 0), cartpole_expert(300, 1)
    box = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    policy = ActorCriticPolicy(box, gym.spaces.Discrete(2), lr_schedule=lambda _: 3e-3, net_arch=[32, 32])

    def compute_loss(model, batch, loss_fn):
        _, log_prob, entropy = model.evaluate_actions(batch[0], batch[1])
        return -log_prob.mean() - 1e-3 * entropy.mean()

    return {
        "model": policy,
        "loader": DataLoader(TensorDataset(s, a), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vs, va), batch_size=100),
        "optimizer": policy.optimizer,
        "compute_loss": compute_loss,
    }


def _lit_class():
    import lightning as L
    from schedulefree import AdamWScheduleFree

    class LitDigits(L.LightningModule):
        def __init__(self, lr=5e-3):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.SiLU(), nn.Dropout(0.1), nn.Linear(96, 10))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            return F.cross_entropy(self(x), y)

        def configure_optimizers(self):
            return AdamWScheduleFree(self.parameters(), lr=self.hparams.lr, warmup_steps=20)

    return LitDigits


@sound(
    "LightningModule driven through training_step with the schedule-free AdamW (which must be put into train mode)",
    source="lightning; facebookresearch/schedule_free README",
)
def lightning_schedule_free():
    torch.manual_seed(0)
    (x, y), (vx, vy) = digit_tensors()
    model = _lit_class()()
    optimizer = model.configure_optimizers()

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        optimizer.train()
        loss = model.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        "compute_loss": lambda model, batch, loss_fn: model.training_step(batch, 0),
    }
