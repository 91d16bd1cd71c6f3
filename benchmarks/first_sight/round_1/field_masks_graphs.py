"""Segmentation (segmentation-models-pytorch, MONAI) and graphs (PyTorch Geometric)."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_1.fdev_data import blobs_masks


@sound(
    "smp Unet with a MobileNetV2 encoder, Dice loss plus soft BCE on logits",
    source="segmentation_models.pytorch examples",
)
def smp_unet_dice_bce():
    import segmentation_models_pytorch as smp

    torch.manual_seed(0)
    x, m = blobs_masks(320)
    vx, vm = blobs_masks(64, seed=1)
    model = smp.Unet(
        "mobilenet_v2", encoder_depth=3, encoder_weights=None, decoder_channels=(32, 16, 8), in_channels=1, classes=1
    )
    dice, bce = smp.losses.DiceLoss("binary", from_logits=True), smp.losses.SoftBCEWithLogitsLoss()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, m), batch_size=8, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vm), batch_size=16),
        "loss_fn": lambda out, target: dice(out, target) + bce(out, target),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class TwoOrgans(Dataset):
    """Dict items as MONAI transforms give them: image, and a label map with background, a disc and a brighter core."""

    def __init__(self, n, seed):
        images, masks = blobs_masks(n, seed=seed)
        core = F.avg_pool2d(masks, 7, 1, 3) > 0.95
        self.labels = masks + core.float()
        self.images = images + 0.8 * core.float()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": self.images[i], "label": self.labels[i]}


@sound(
    "MONAI UNet with residual units and DiceCELoss on dict batches, three classes",
    source="MONAI segmentation tutorials",
)
def monai_unet_dicece():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    torch.manual_seed(0)
    model = UNet(spatial_dims=2, in_channels=1, out_channels=3, channels=(8, 16, 32), strides=(2, 2), num_res_units=1)

    def compute_loss(model, batch, loss_fn):
        return loss_fn(model(batch["image"]), batch["label"])

    return {
        "model": model,
        "loader": DataLoader(TwoOrgans(320, 0), batch_size=8, shuffle=True),
        "val_loader": DataLoader(TwoOrgans(64, 1), batch_size=16),
        "loss_fn": DiceCELoss(to_onehot_y=True, softmax=True),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-5),
        "compute_loss": compute_loss,
    }


def citation_graph(n=600, classes=4, seed=0):
    from torch_geometric.data import Data

    r = np.random.RandomState(seed)
    y = r.randint(classes, size=n)
    same = y[:, None] == y[None, :]
    a = r.rand(n, n) < np.where(same, 0.02, 0.002)
    a = np.triu(a, 1)
    src, dst = np.nonzero(a | a.T)
    x = r.normal(0, 1, (n, 32)) + 0.5 * np.eye(classes, 32)[y] * 3
    order = r.permutation(n)
    train, val = np.zeros(n, bool), np.zeros(n, bool)
    train[order[:200]], val[order[200:]] = True, True
    t = torch.tensor
    return Data(
        x=t(x, dtype=torch.float32), edge_index=t(np.stack([src, dst])), y=t(y), train_mask=t(train), val_mask=t(val)
    )


class GCN(nn.Module):
    def __init__(self, width, classes):
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.conv1, self.conv2 = GCNConv(32, width), GCNConv(width, classes)

    def forward(self, data):
        h = F.dropout(self.conv1(data.x, data.edge_index).relu(), 0.5, self.training)
        return self.conv2(h, data.edge_index)


@sound(
    "GCN on one graph, full batch, loss on the training mask; weight decay on the first layer only",
    source="pytorch_geometric examples/gcn.py",
)
def pyg_gcn_full_batch():
    from torch_geometric.loader import DataLoader as GraphLoader

    torch.manual_seed(0)
    model = GCN(32, 4)

    def compute_loss(model, batch, loss_fn):
        return loss_fn(model(batch)[batch.train_mask], batch.y[batch.train_mask])

    optimizer = torch.optim.Adam(
        [
            dict(params=model.conv1.parameters(), weight_decay=5e-4),
            dict(params=model.conv2.parameters(), weight_decay=0),
        ],
        lr=0.01,
    )
    return {
        "model": model,
        "loader": GraphLoader([citation_graph()], batch_size=1),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "compute_loss": compute_loss,
    }


def ring_graphs(n, seed=0):
    """Cycles against paths with a few extra edges; the class is whether the graph has triangles."""
    from torch_geometric.data import Data

    r = np.random.RandomState(seed)
    out = []
    for _ in range(n):
        k, y = r.randint(8, 16), int(r.randint(2))
        edges = [(i, (i + 1) % k) for i in range(k)]
        for s in r.choice(k, 3, replace=False):
            edges.append((s, (s + (2 if y else 3)) % k))
        e = np.array(edges + [(b, a) for a, b in edges]).T
        deg = np.bincount(e[0], minlength=k)
        out.append(
            Data(
                x=torch.tensor(np.eye(6)[np.clip(deg, 0, 5)], dtype=torch.float32),
                edge_index=torch.tensor(e),
                y=torch.tensor([y]),
            )
        )
    return out


class GINClassifier(nn.Module):
    def __init__(self, width=32, layers=3):
        from torch_geometric.nn import MLP, GINConv, global_add_pool

        super().__init__()
        self.pool = global_add_pool
        self.convs = nn.ModuleList(
            GINConv(MLP([6 if i == 0 else width, width, width], norm="batch_norm"), train_eps=True)
            for i in range(layers)
        )
        self.head = MLP([width, width, 2], norm=None, dropout=0.2)

    def forward(self, data):
        x = data.x
        for conv in self.convs:
            x = conv(x, data.edge_index).relu()
        return self.head(self.pool(x, data.batch))


@sound(
    "GIN graph classification over mini-batches of graphs, sum pooling",
    source="pytorch_geometric examples/mutag_gin.py",
)
def pyg_gin_graphs():
    from torch_geometric.loader import DataLoader as GraphLoader

    torch.manual_seed(0)
    model = GINClassifier()
    return {
        "model": model,
        "loader": GraphLoader(ring_graphs(800), batch_size=32, shuffle=True),
        "val_loader": GraphLoader(ring_graphs(200, 1), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch), batch.y),
    }
