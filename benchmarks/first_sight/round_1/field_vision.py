"""timm, torchvision, byol-pytorch and pytorch-metric-learning on the digits."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_1.fdev_data import digits_images


@sound(
    "timm VisionTransformer with Mixup and SoftTargetCrossEntropy (mixed only while training)", source="timm train.py"
)
def timm_vit_mixup():
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images(size=16)
    model = VisionTransformer(
        img_size=16, patch_size=4, in_chans=1, num_classes=10, embed_dim=48, depth=3, num_heads=4, drop_path_rate=0.05
    )
    mix = Mixup(mixup_alpha=0.2, cutmix_alpha=0.0, label_smoothing=0.1, num_classes=10)

    def compute_loss(model, batch, loss_fn):
        xb, yb = batch
        if model.training and len(xb) % 2 == 0:
            xb, soft = mix(xb.clone(), yb)
        else:
            soft = F.one_hot(yb, 10).float()
        return loss_fn(model(xb), soft)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3, weight_decay=0.05)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": SoftTargetCrossEntropy(),
        "optimizer": optimizer,
        "compute_loss": compute_loss,
    }


@sound(
    "timm ConvNeXt with layer scale and drop path, layer-wise learning-rate decay from create_optimizer_v2, smoothing",
    source="timm create_optimizer_v2 docs",
)
def timm_convnext_layer_decay():
    from timm.models.convnext import ConvNeXt
    from timm.optim import create_optimizer_v2

    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images(size=32)
    model = ConvNeXt(
        in_chans=1, num_classes=10, depths=(1, 1, 2, 1), dims=(16, 32, 48, 64), drop_path_rate=0.05, ls_init_value=1e-2
    )
    optimizer = create_optimizer_v2(model, opt="adamw", lr=4e-3, weight_decay=0.05, layer_decay=0.8)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": optimizer,
        "class_names": [str(i) for i in range(10)],
    }


class FrozenFeatures(nn.Module):
    """A backbone that stays frozen and in eval mode, and a fresh head."""

    def __init__(self, backbone, width, classes):
        super().__init__()
        self.backbone = backbone.requires_grad_(False).eval()
        self.head = nn.Linear(width, classes)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x)
        return self.head(f)


@sound(
    "torchvision ShuffleNetV2 trained on the digits 0-4, then frozen in eval mode; a new head learns 5-9",
    source="PyTorch transfer learning tutorial, ConvNet as fixed feature extractor",
)
def torchvision_frozen_shufflenet():
    from torchvision.models import ShuffleNetV2

    torch.manual_seed(0)
    (ax, ay), _ = digits_images(size=32, classes=range(5))
    backbone = ShuffleNetV2([1, 1, 1], [16, 32, 48, 64, 96], num_classes=5)
    opt = torch.optim.Adam(backbone.parameters(), lr=2e-3)
    for _ in range(4):
        for xb, yb in DataLoader(TensorDataset(ax.repeat(1, 3, 1, 1), ay), batch_size=32, shuffle=True, drop_last=True):
            opt.zero_grad()
            F.cross_entropy(backbone(xb), yb).backward()
            opt.step()
    backbone.fc = nn.Identity()
    model = FrozenFeatures(backbone, 96, 5)
    (x, y), (vx, vy) = digits_images(size=32, classes=range(5, 10))
    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x.repeat(1, 3, 1, 1), y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx.repeat(1, 3, 1, 1), vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


def small_cnn(width=24, out=64, channels=1):
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, out),
    )


class Unit(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


@sound(
    "embedding of the digits with TripletMarginLoss and a semi-hard miner; the model ends in normalize",
    source="pytorch-metric-learning examples/MetricLossOnly",
)
def pml_triplet_miner():
    from pytorch_metric_learning import distances, losses, miners

    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images()
    model = Unit(small_cnn(out=16))
    distance = distances.CosineSimilarity()
    miner = miners.TripletMarginMiner(margin=0.2, distance=distance, type_of_triplets="semihard")

    def compute_loss(model, batch, loss_fn):
        xb, yb = batch
        emb = model(xb)
        return loss_fn(emb, yb, miner(emb, yb))

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=128),
        "loss_fn": losses.TripletMarginLoss(margin=0.2, distance=distance),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


class Jitter(nn.Module):
    """Random shift and noise for 8x8 digits."""

    def forward(self, x):
        dy, dx = torch.randint(-1, 2, (2,)).tolist()
        return torch.roll(x, (dy, dx), (-2, -1)) + 0.15 * torch.randn_like(x)


@sound(
    "BYOL: the learner returns its loss, the target network is an EMA moved after each step",
    source="lucidrains/byol-pytorch README",
)
def byol_digits_ema():
    from byol_pytorch import BYOL

    torch.manual_seed(0)
    (x, _), (vx, _) = digits_images()
    x, vx = x.repeat(1, 3, 1, 1), vx.repeat(1, 3, 1, 1)
    learner = BYOL(
        small_cnn(channels=3),
        image_size=8,
        hidden_layer=-1,
        projection_size=32,
        projection_hidden_size=128,
        augment_fn=Jitter(),
        moving_average_decay=0.99,
        use_simplicial_embeddings=False,
    )
    optimizer = torch.optim.Adam((p for p in learner.parameters() if p.requires_grad), lr=1e-3)

    def train_step(model, batch, loss_fn, optimizer):
        loss = model(batch[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update_moving_average()
        return loss

    return {
        "model": learner,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=64),
        "optimizer": optimizer,
        "train_step": train_step,
        "compute_loss": lambda model, batch, loss_fn: model(batch[0]),
    }
