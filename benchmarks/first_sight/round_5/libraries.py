"""Sound programs around public libraries; each is imported where it's used, as they take long."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.first_sight import sound
from sklearn.datasets import load_digits, make_circles, make_moons
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def _digits(noise: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    x = x / 16 + np.random.default_rng(0).normal(0, noise, x.shape)
    return torch.from_numpy(x.astype("float32")), torch.from_numpy(y)


class _Dicts(Dataset):
    def __init__(self, **fields: torch.Tensor) -> None:
        self.fields = fields

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {k: v[i] for k, v in self.fields.items()}


def _own_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    return model(**batch).loss


@sound("An exact Gaussian process: one full batch, the model called on its own training inputs.", source="gpytorch")
def elm_exact_gp() -> dict[str, Any]:
    import gpytorch

    torch.manual_seed(0)
    x = torch.linspace(0, 1, 80)
    y = torch.sin(12 * x) + 0.1 * torch.randn(80)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class GP(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = GP()
    model.covar_module.base_kernel.lengthscale = 0.2
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return {
        "model": model,
        "loader": [(x, y)],
        "loss_fn": lambda output, y: -mll(output, y),
        "optimizer": torch.optim.Adam(model.parameters(), 0.1),
    }


@sound("A variational Gaussian process with inducing points that are learned, in mini-batches.", source="gpytorch")
def elm_variational_gp() -> dict[str, Any]:
    import gpytorch

    torch.manual_seed(1)
    x = torch.rand(600, 2) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).float() * 2 - 1 + 0.1 * torch.randn(600)

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            dist = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, dist))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
            self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = SVGP(x[:30].clone())
    elbo = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=500)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:500], y[:500]), 100, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[500:], y[500:]), 100),
        "loss_fn": lambda output, y: -elbo(output, y),
        "optimizer": torch.optim.Adam(model.parameters(), 0.02),
    }


@sound("A neural spline flow fitted by likelihood; there are no targets and the loss may be negative.", source="zuko")
def elm_spline_flow() -> dict[str, Any]:
    import zuko

    torch.manual_seed(2)
    x = torch.from_numpy(make_moons(1500, noise=0.05, random_state=0)[0].astype("float32"))
    flow = zuko.flows.NSF(features=2, transforms=2, bins=6, hidden_features=(32, 32))
    return {
        "model": flow,
        "loader": DataLoader(TensorDataset(x), 100, shuffle=True),
        "loss_fn": None,
        "compute_loss": lambda model, batch, loss_fn: -model().log_prob(batch[0]).mean(),
        "optimizer": torch.optim.Adam(flow.parameters(), 5e-3),
    }


@sound("Simulation-based inference: a conditional flow learns the parameter given the observation.", source="zuko")
def elm_posterior_flow() -> dict[str, Any]:
    import zuko

    torch.manual_seed(3)
    theta = torch.rand(2000, 2) * 4 - 2
    seen = torch.stack([theta.sum(1), theta[:, 0] ** 2, theta[:, 1]], 1) + 0.1 * torch.randn(2000, 3)
    flow = zuko.flows.MAF(features=2, context=3, transforms=2, hidden_features=(32, 32))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        theta, seen = batch
        loss = -model(seen).log_prob(theta).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss

    return {
        "model": flow,
        "loader": DataLoader(TensorDataset(theta, seen), 128, shuffle=True),
        "loss_fn": None,
        "optimizer": torch.optim.AdamW(flow.parameters(), 3e-3),
        "train_step": train_step,
    }


@sound("Real NVP by forward KL, its scales starting at zero weights on purpose.", source="normflows")
def elm_real_nvp() -> dict[str, Any]:
    import normflows as nf

    torch.manual_seed(4)
    x = torch.from_numpy(make_circles(1500, noise=0.05, factor=0.4, random_state=0)[0].astype("float32"))
    flows = []
    for _ in range(6):
        flows += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 32, 2], init_zeros=True)), nf.flows.Permute(2)]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), 150, shuffle=True),
        "loss_fn": None,
        "compute_loss": lambda model, batch, loss_fn: model.forward_kld(batch[0]),
        "optimizer": torch.optim.Adamax(model.parameters(), 5e-3, weight_decay=1e-5),
    }


@sound("Poincaré embedding of a tree, trained by Riemannian Adam; the parameters live in a ball.", source="geoopt")
def elm_poincare_tree() -> dict[str, Any]:
    import geoopt

    torch.manual_seed(6)
    ball = geoopt.PoincareBall()
    edges = torch.tensor([(child, (child - 1) // 2) for child in range(1, 63)])

    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.points = geoopt.ManifoldParameter(torch.randn(63, 2) * 1e-2, manifold=ball)

        def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return -ball.dist(self.points[u], self.points[v])

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        (pairs,) = batch
        child, parent = pairs.unbind(1)
        others = torch.randint(0, 63, (len(child), 10))
        scores = torch.cat([model(child, parent)[:, None], model(child[:, None].expand(-1, 10), others)], 1)
        return loss_fn(scores, torch.zeros(len(child), dtype=torch.long))

    model = Embedding()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(edges), 31, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": geoopt.optim.RiemannianAdam(model.parameters(), 5e-2),
    }


@sound("A neural ODE fits short pieces of one trajectory by backpropagating through the solver.", source="torchdiffeq")
def elm_neural_ode() -> dict[str, Any]:
    from torchdiffeq import odeint

    torch.manual_seed(7)
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    times = torch.linspace(0, 4, 200)
    with torch.no_grad():
        path = odeint(lambda t, y: (y**3) @ true, torch.tensor([[2.0, 0.0]]), times)[:, 0]

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.net(y**3)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        start, piece = batch
        return loss_fn(odeint(model, start, times[:6], method="rk4").transpose(0, 1), piece)

    pieces = path.unfold(0, 6, 1).transpose(1, 2)
    model = Field()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(path[:195], pieces), 39, shuffle=True),
        "loss_fn": nn.L1Loss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.RMSprop(model.parameters(), 3e-3),
    }


@sound(
    "Classification by entmax-1.5: its loss takes logits, and attention weights can be exactly zero.", source="entmax"
)
def elm_sparse_choice() -> dict[str, Any]:
    from entmax import Entmax15Loss, sparsemax

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.value, self.out = nn.Linear(8, 1), nn.Linear(8, 24), nn.Linear(24, 10)
            self.place = nn.Parameter(torch.randn(8, 8) * 0.3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = x.view(-1, 8, 8)
            weights = sparsemax(self.score(torch.tanh(rows + self.place)), dim=1)
            return self.out(
                torch.relu((weights + 0.1) * self.value(rows + self.place)).flatten(1).view(-1, 8, 24).sum(1)
            )

    torch.manual_seed(8)
    x, y = _digits()
    model = Net()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": Entmax15Loss(reduction="elementwise_mean"),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


@sound("Image registration: six parameters of an affine map are fitted to one pair of images.", source="kornia")
def elm_affine_registration() -> dict[str, Any]:
    import kornia

    torch.manual_seed(10)
    grid = torch.linspace(-1, 1, 48)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    source = (torch.exp(-((xx - 0.2) ** 2 + yy**2) * 8) + 0.7 * torch.exp(-((xx + 0.4) ** 2 + (yy - 0.3) ** 2) * 20))[
        None, None
    ]
    true = torch.tensor([[[0.95, 0.15, 2.0], [-0.12, 1.05, -3.0]]])
    target = kornia.geometry.warp_affine(source, true, (48, 48))

    class Register(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.theta = nn.Parameter(torch.zeros(1, 2, 3))
            self.register_buffer("scale", torch.tensor([[[1.0, 1.0, 10.0], [1.0, 1.0, 10.0]]]))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            matrix = torch.eye(2, 3)[None] + self.theta * self.scale
            return kornia.geometry.warp_affine(image, matrix, (48, 48))

    model = Register()
    return {
        "model": model,
        "loader": [(source, target)],
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2),
    }


@sound(
    "Denoising judged by structural similarity, a loss that begins near 1 minus a similarity.", source="torchmetrics"
)
def elm_denoise_by_ssim() -> dict[str, Any]:
    from torchmetrics.functional.image import structural_similarity_index_measure as ssim

    torch.manual_seed(11)
    x = F.interpolate(_digits()[0].view(-1, 1, 8, 8)[:600], 16, mode="bilinear")
    noisy = (x + 0.25 * torch.randn_like(x)).clamp(0, 1)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, 1, 1), nn.ReLU(), nn.Conv2d(12, 12, 3, 1, 1), nn.ReLU(), nn.Conv2d(12, 1, 3, 1, 1)
    )

    def loss(pred: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
        return 1 - ssim(pred, clean, data_range=1.0, kernel_size=5, sigma=0.8) + 0.1 * F.l1_loss(pred, clean)

    return {
        "model": net,
        "loader": DataLoader(TensorDataset(noisy[:500], x[:500]), 25, shuffle=True),
        "val_loader": DataLoader(TensorDataset(noisy[500:], x[500:]), 50),
        "loss_fn": loss,
        "optimizer": torch.optim.Adam(net.parameters(), 3e-3),
    }


@sound(
    "Layer-wise learning rates: the stem's rate is a hundredth of the head's, weight decay only where it belongs.",
    source="timm",
)
def elm_layer_decay() -> dict[str, Any]:
    from timm.models.vision_transformer import VisionTransformer
    from timm.optim import param_groups_layer_decay

    torch.manual_seed(13)
    x, y = _digits()
    x = x.view(-1, 1, 8, 8)
    model = VisionTransformer(
        img_size=8, patch_size=4, in_chans=1, num_classes=10, embed_dim=32, depth=3, num_heads=4, global_pool="avg"
    )
    groups = param_groups_layer_decay(model, weight_decay=0.05, layer_decay=0.6)
    for group in groups:
        group["lr"] = 5e-3 * group.pop("lr_scale")
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 40, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(groups),
        "class_names": [str(i) for i in range(10)],
    }


@sound(
    "Multi-label segmentation: overlapping organs, Tversky loss on logits plus soft cross-entropy.",
    source="segmentation-models-pytorch",
)
def elm_overlapping_organs() -> dict[str, Any]:
    import segmentation_models_pytorch as smp

    torch.manual_seed(14)
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:32, :32]
    images, masks = rng.normal(0, 0.2, (120, 1, 32, 32)), np.zeros((120, 2, 32, 32))
    for i in range(120):
        for c, (level, r) in enumerate([(1.0, 8), (-1.0, 6)]):
            cy, cx = rng.uniform(8, 24, 2)
            masks[i, c] = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            images[i, 0] += level * masks[i, c] * (1 if c else 2)
    x, y = torch.from_numpy(images.astype("float32")), torch.from_numpy(masks.astype("float32"))
    model = smp.Unet(
        "resnet18", encoder_weights=None, in_channels=1, classes=2, encoder_depth=3, decoder_channels=(32, 16, 8)
    )
    tversky = smp.losses.TverskyLoss("multilabel", alpha=0.3, beta=0.7)
    soft = smp.losses.SoftBCEWithLogitsLoss(smooth_factor=0.05)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:96], y[:96]), 8, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[96:], y[96:]), 12),
        "loss_fn": lambda logits, y: tversky(logits, y) + soft(logits, y),
        "optimizer": torch.optim.AdamW(model.parameters(), 1e-3),
        "class_names": ["liver", "lesion"],
    }


@sound(
    "Diffusion with velocity prediction through diffusers' scheduler, conditioning dropped now and then.",
    source="diffusers",
)
def elm_velocity_diffusion() -> dict[str, Any]:
    from diffusers import DDPMScheduler

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.label = nn.Embedding(3, 8)
            self.net = nn.Sequential(nn.Linear(11, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

        def forward(self, x: torch.Tensor, t: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self.net(torch.cat([x, t[:, None] / 100, self.label(label)], 1))

    torch.manual_seed(15)
    x, y = make_moons(1500, noise=0.05, random_state=0)
    scheduler = DDPMScheduler(100, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction")

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x0, label = batch
        noise, t = torch.randn_like(x0), torch.randint(0, 100, (len(x0),))
        label = torch.where(torch.rand(len(x0)) < 0.1, 2, label)
        pred = model(scheduler.add_noise(x0, noise, t), t, label)
        return loss_fn(pred, scheduler.get_velocity(x0, noise, t))

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(
            TensorDataset(torch.from_numpy(x.astype("float32")), torch.from_numpy(y)), 100, shuffle=True
        ),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), 2e-3),
    }


def _blocks(seed: int, n: int = 240) -> Any:
    from torch_geometric.data import Data
    from torch_geometric.utils import stochastic_blockmodel_graph

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    sizes = [n // 4] * 4
    probs = torch.full((4, 4), 0.01) + 0.09 * torch.eye(4)
    y = torch.arange(4).repeat_interleave(n // 4)
    x = torch.randn(n, 8) + F.one_hot(y, 8) * 0.8
    return Data(x=x, edge_index=stochastic_blockmodel_graph(sizes, probs), y=y, train_mask=torch.rand(n) < 0.25)


@sound(
    "Transductive node classification: one graph is the only batch and the loss sees a quarter of its nodes.",
    source="torch-geometric",
)
def elm_one_graph() -> dict[str, Any]:
    from torch_geometric.nn import GCNConv

    data = _blocks(16)

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GCNConv(8, 16), GCNConv(16, 4)

        def forward(self, data: Any) -> torch.Tensor:
            h = F.dropout(self.conv1(data.x, data.edge_index).relu(), 0.5, self.training)
            return self.conv2(h, data.edge_index)

    def compute_loss(model: nn.Module, data: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(data)[data.train_mask], data.y[data.train_mask])

    model = GCN()
    return {
        "model": model,
        "loader": [data],
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(
            [{"params": model.conv1.parameters(), "weight_decay": 5e-4}, {"params": model.conv2.parameters()}], 1e-2
        ),
    }


@sound("A graph autoencoder predicts links; negative edges are drawn anew in each step.", source="torch-geometric")
def elm_link_autoencoder() -> dict[str, Any]:
    from torch_geometric.nn import GAE, SAGEConv

    data = _blocks(17)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = SAGEConv(8, 32), SAGEConv(32, 16)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x, edge_index).relu(), edge_index)

    model = GAE(Encoder())

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        z = model.encode(batch.x, batch.edge_index)
        loss = model.recon_loss(z, batch.edge_index)
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": [data],
        "loss_fn": None,
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2),
        "train_step": train_step,
    }


@sound("Graph regression in batches of Data objects, messages by GINE with edge features.", source="torch-geometric")
def elm_graph_batches() -> dict[str, Any]:
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader as GraphLoader
    from torch_geometric.nn import GINEConv, global_add_pool

    torch.manual_seed(18)
    graphs = []
    for _ in range(300):
        n = int(torch.randint(5, 12, ()))
        edge_index = torch.randint(0, n, (2, 2 * n))
        edge_attr = torch.randn(2 * n, 3)
        x = torch.randn(n, 4)
        y = (x[edge_index[0], 0] + edge_attr[:, 0]).relu().sum() / 5 - x[:, 1].sum() / 5
        graphs.append(Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y[None]))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            mlp = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32))
            self.lift, self.conv = nn.Linear(4, 4), GINEConv(mlp, edge_dim=3)
            self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, data: Any) -> torch.Tensor:
            h = self.conv(self.lift(data.x), data.edge_index, data.edge_attr)
            return self.head(global_add_pool(h, data.batch)).squeeze(1)

    model = Net()
    return {
        "model": model,
        "loader": GraphLoader(graphs[:240], batch_size=24, shuffle=True),
        "val_loader": GraphLoader(graphs[240:], batch_size=30),
        "loss_fn": nn.SmoothL1Loss(),
        "compute_loss": lambda model, data, loss_fn: loss_fn(model(data), data.y),
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


@sound(
    "ArcFace: the loss holds the class weights, and one optimizer moves both it and the trunk.",
    source="pytorch-metric-learning",
)
def elm_arcface() -> dict[str, Any]:
    from pytorch_metric_learning import losses

    torch.manual_seed(19)
    x, y = _digits()
    trunk = nn.Sequential(nn.Linear(64, 64), nn.PReLU(), nn.Linear(64, 16))
    arcface = losses.ArcFaceLoss(num_classes=10, embedding_size=16, margin=20, scale=16)
    return {
        "model": trunk,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": arcface,
        "optimizer": torch.optim.Adam([*trunk.parameters(), *arcface.parameters()], 2e-3),
    }


@sound(
    "Triplets mined in the batch; as training goes on most have no loss, so it is often zero.",
    source="pytorch-metric-learning",
)
def elm_mined_triplets() -> dict[str, Any]:
    from pytorch_metric_learning import losses, miners, samplers

    np.random.seed(20)
    torch.manual_seed(20)
    x, y = _digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    miner, loss = (
        miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard"),
        losses.TripletMarginLoss(margin=0.2),
    )
    sampler = samplers.MPerClassSampler(y[:1400], m=6, batch_size=60, length_before_new_iter=1200)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        z = model(batch[0])
        value = loss_fn(z, batch[1], miner(z, batch[1]))
        value.backward()
        optimizer.step()
        return value

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 60, sampler=sampler),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": loss,
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
        "train_step": train_step,
    }


@sound("LoRA on a small frozen BERT; the new classifier is among the modules to save.", source="peft and transformers")
def elm_lora_bert() -> dict[str, Any]:
    from peft import LoraConfig, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(21)
    ids = torch.randint(5, 60, (800, 12))
    labels = (ids[:, 1] // 20).clamp(max=2)
    config = BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3
    )
    base = BertForSequenceClassification(config)
    lora = LoraConfig(
        task_type="SEQ_CLS",
        r=8,
        lora_alpha=16,
        target_modules=["query", "value", "dense"],
        modules_to_save=["classifier"],
    )
    model = get_peft_model(base, lora)
    mask = torch.ones_like(ids)
    return {
        "model": model,
        "loader": DataLoader(
            _Dicts(input_ids=ids[:640], attention_mask=mask[:640], labels=labels[:640]), 32, shuffle=True
        ),
        "val_loader": DataLoader(_Dicts(input_ids=ids[640:], attention_mask=mask[640:], labels=labels[640:]), 40),
        "loss_fn": None,
        "compute_loss": _own_loss,
        "optimizer": torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 5e-3),
    }


@sound(
    "T5 reverses strings: it shifts labels itself, padding is -100, and there's no position embedding.",
    source="transformers",
)
def elm_t5_reverses() -> dict[str, Any]:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(22)
    config = T5Config(
        vocab_size=20,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config)
    lengths = torch.randint(3, 7, (800,))
    ids, labels = torch.zeros(800, 8, dtype=torch.long), torch.full((800, 8), -100)
    for i, n in enumerate(lengths.tolist()):
        word = torch.randint(2, 20, (n,))
        ids[i, :n], ids[i, n] = word, 1
        labels[i, :n], labels[i, n] = word.flip(0), 1
    data = _Dicts(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels)
    return {
        "model": model,
        "loader": DataLoader(data, 40, shuffle=True),
        "loss_fn": None,
        "compute_loss": _own_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


@sound(
    "CLIP on toy pairs: the model returns its symmetric contrastive loss, the temperature is a parameter.",
    source="transformers",
)
def elm_toy_clip() -> dict[str, Any]:
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(23)
    text = {
        "vocab_size": 30,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 8,
        "eos_token_id": 29,
        "bos_token_id": 0,
        "pad_token_id": 1,
    }
    vision = {
        "image_size": 8,
        "patch_size": 4,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_channels": 1,
    }
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    x, y = _digits()
    rank = x.sum(1).argsort().argsort() * 8 // len(x)
    ids = torch.stack([torch.zeros_like(y), y + 2, rank + 14, torch.full_like(y, 29)], 1)
    images = x.view(-1, 1, 8, 8)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return model(**batch, return_loss=True).loss

    return {
        "model": model,
        "loader": DataLoader(
            _Dicts(pixel_values=images[:1400], input_ids=ids[:1400]), 28, shuffle=True, drop_last=True
        ),
        "val_loader": DataLoader(_Dicts(pixel_values=images[1400:], input_ids=ids[1400:]), 28, drop_last=True),
        "loss_fn": None,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), 1e-3),
    }


@sound("Accelerate accumulates four micro-batches; most calls of the step move nothing.", source="accelerate")
def elm_accelerate_accumulates() -> dict[str, Any]:
    from accelerate import Accelerator

    torch.manual_seed(24)
    x, y = _digits()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = nn.Sequential(nn.Linear(64, 64), nn.Mish(), nn.Linear(64, 10))
    loader = DataLoader(TensorDataset(x[:1400], y[:1400]), 20, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 5e-3), loader)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        with accelerator.accumulate(model):
            loss = loss_fn(model(batch[0]), batch[1])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@sound(
    "Masked language modelling: labels are -100 where nothing was masked, one token in ten masked is left as it is.",
    source="transformers",
)
def elm_masked_words() -> dict[str, Any]:
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    torch.manual_seed(25)
    rng = np.random.default_rng(0)
    rows = (rng.integers(0, 20, (800, 1)) + rng.integers(1, 4, (800, 1)) * np.arange(12)) % 20 + 2
    text = torch.from_numpy(rows)

    def collate(items: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        ids = torch.stack(items)
        labels = ids.clone()
        chosen = torch.rand(ids.shape) < 0.2
        labels[~chosen] = -100
        dice = torch.rand(ids.shape)
        ids = torch.where(chosen & (dice < 0.8), torch.tensor(1), ids)
        ids = torch.where(chosen & (dice > 0.9), torch.randint(2, 22, ids.shape), ids)
        return {"input_ids": ids, "labels": labels}

    model = DistilBertForMaskedLM(
        DistilBertConfig(
            vocab_size=22, dim=48, hidden_dim=96, n_layers=2, n_heads=4, max_position_embeddings=16, dropout=0.0
        )
    )
    return {
        "model": model,
        "loader": DataLoader(list(text[:700]), 50, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(list(text[700:]), 50, collate_fn=collate),
        "loss_fn": None,
        "compute_loss": _own_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), 2e-3),
    }


@sound(
    "Axes are moved by einops inside an MLP-Mixer, which mixes tokens over the token axis on purpose.", source="einops"
)
def elm_einops_mixer() -> dict[str, Any]:
    from einops.layers.torch import Rearrange, Reduce

    class Residual(nn.Module):
        def __init__(self, fn: nn.Module) -> None:
            super().__init__()
            self.fn = fn

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.fn(x)

    def mlp(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    torch.manual_seed(26)
    x, y = _digits()
    layers: list[nn.Module] = [Rearrange("b (h p w q) -> b (h w) (p q)", h=4, p=2, w=4, q=2), nn.Linear(4, 24)]
    for _ in range(2):
        layers.append(
            Residual(nn.Sequential(nn.LayerNorm(24), Rearrange("b t c -> b c t"), mlp(16), Rearrange("b c t -> b t c")))
        )
        layers.append(Residual(nn.Sequential(nn.LayerNorm(24), mlp(24))))
    model = nn.Sequential(*layers, Reduce("b t c -> b c", "mean"), nn.Linear(24, 10))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), 3e-3),
    }


@sound(
    "Stochastic weight averaging in the second half, with its own schedule; the average is a buffer of its own.",
    source="torch.optim.swa_utils",
)
def elm_weight_averaging() -> dict[str, Any]:
    from torch.optim.swa_utils import SWALR, AveragedModel

    torch.manual_seed(27)
    x, y = _digits(0.3)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    swa = SWALR(optimizer, swa_lr=0.03, anneal_epochs=20)
    count = {"n": 0}

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        count["n"] += 1
        if count["n"] > 100:
            average.update_parameters(model)
            swa.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 70, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@sound(
    "Weights under an orthogonal parametrization and spectral norm: they are computed, not stored.",
    source="torch.nn.utils.parametrizations",
)
def elm_orthogonal_rnn() -> dict[str, Any]:
    from torch.nn.utils.parametrizations import orthogonal, spectral_norm

    class Unitary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = orthogonal(nn.Linear(32, 32, bias=False))
            self.enter, self.leave = nn.Linear(8, 32), spectral_norm(nn.Linear(32, 10))
            self.scale = nn.Parameter(torch.tensor(5.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x.new_zeros(len(x), 32)
            for row in x.view(-1, 8, 8).unbind(1):
                h = torch.tanh(self.recurrent(h) + self.enter(row))
            return self.scale * self.leave(h)

    torch.manual_seed(28)
    x, y = _digits()
    model = Unitary()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 4e-3),
    }


@sound("Fine-tuning after pruning: 70% of the weights are held at zero by masks.", source="torch.nn.utils.prune")
def elm_pruned_network() -> dict[str, Any]:
    from torch.nn.utils import prune

    torch.manual_seed(29)
    x, y = _digits()
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:700]), y[:700]).backward()
        optimizer.step()
    prune.global_unstructured([(model[0], "weight"), (model[2], "weight")], prune.L1Unstructured, amount=0.7)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(copy.copy(list(model.parameters())), 0.05, momentum=0.9, nesterov=True),
    }
