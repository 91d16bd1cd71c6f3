"""Images: timm, torchvision and segmentation-models-pytorch, without weights from anywhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.field import program
from tests.zoo.samples import seeded


def quarters(count: int = 240, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images, and which quarter of each is bright."""
    g = seeded()
    labels = torch.randint(0, 4, (count,), generator=g)
    images = 0.5 * torch.randn(count, 3, size, size, generator=g)
    half = size // 2
    for label in range(4):
        top, left = label // 2 * half, label % 2 * half
        images[labels == label, :, top : top + half, left : left + half] += 1.0
    return images, labels


def regions(count: int = 72, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images with a bright and a dark rectangle, and the class of every pixel."""
    g = seeded()
    images, masks = 0.2 * torch.randn(count, 3, size, size, generator=g), torch.zeros(count, size, size).long()
    for image, mask in zip(images, masks, strict=True):
        for label, value in ((1, 1.0), (2, -1.0)):
            top, left = torch.randint(0, size - 14, (2,), generator=g).tolist()
            place = (slice(top, top + 8 + 2 * label), slice(left, left + 12))
            mask[place], image[:, place[0], place[1]] = label, value
    return images, masks


def made(model: nn.Module, *columns: torch.Tensor, batch_size: int = 16, **more: Any) -> dict[str, Any]:
    """Put a set-up together; Adam, unless another optimizer is given."""
    optimizer = more.pop("optimizer", None) or torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(*columns), batch_size, shuffle=True, drop_last=True)
    return {"model": model, "loader": loader, "optimizer": optimizer, **more}


@program(
    "loss",
    "timm",
    probabilities_into_the_loss=("softmax-before-cross-entropy",),
    batch_in_the_softmax=("softmax-over-wrong-dim", "batch-mixing"),
)
def timm_transformer(fault: str = "") -> dict[str, Any]:
    """A vision transformer of timm with stochastic depth and smoothed labels."""
    from timm.models.vision_transformer import VisionTransformer

    model: nn.Module = VisionTransformer(16, 4, embed_dim=32, depth=2, num_heads=4, num_classes=4, drop_path_rate=0.1)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    if fault == "probabilities_into_the_loss":
        model = nn.Sequential(model, nn.Softmax(dim=1))
    if fault == "batch_in_the_softmax":
        return made(nn.Sequential(model, nn.LogSoftmax(dim=0)), *quarters(), loss_fn=nn.NLLLoss())
    return made(model, *quarters(), loss_fn=loss_fn)


@program("parts", "timm", frozen_with_its_head=("loss-not-differentiable", "frozen-parameters", "step-never-taken"))
def timm_frozen_features(fault: str = "") -> dict[str, Any]:
    """A convolutional network of timm whose features are frozen; its batch norm keeps the statistics it has."""
    import timm

    model = timm.create_model("resnet10t", num_classes=4, pretrained=False)
    for weight in model.parameters():
        weight.requires_grad_(False)
    if fault != "frozen_with_its_head":
        model.reset_classifier(4)
    model.train = lambda mode=True: nn.Module.train(model, False)  # kept in eval mode, as for extracting features
    optimizer = torch.optim.Adam(model.get_classifier().parameters(), lr=1e-2)
    return made(model.eval(), *quarters(size=32), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@program(
    "layout",
    "torchvision",
    channels_last=("misread-image-layout", "forward-fails"),
    eval_mode=("left-in-eval-mode",),
)
def torchvision_resnet(fault: str = "") -> dict[str, Any]:
    """A small residual network of torchvision under SGD with momentum."""
    from torchvision.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=4)
    images, labels = quarters(size=32)
    if fault == "channels_last":
        images = images.permute(0, 2, 3, 1).contiguous()

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model.train(fault != "eval_mode")
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    return made(model, images, labels, loss_fn=loss_fn, train_step=train_step, optimizer=optimizer)


class Squares(Dataset[Any]):
    """Images with one or two colored squares, and their boxes."""

    def __init__(self, count: int = 48, *, corners: bool = True) -> None:
        self.count, self.corners = count, corners

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        g = seeded(index)
        image, boxes, labels = 0.1 * torch.rand(3, 64, 64, generator=g), [], []
        for _ in range(1 + index % 2):
            w, h, x, y = (torch.tensor([12, 12, 0, 0]) + torch.randint(0, 24, (4,), generator=g)).tolist()
            label = int(torch.randint(1, 3, (1,), generator=g))
            image[label, y : y + h, x : x + w] = 0.9
            boxes.append([x, y, x + w, y + h] if self.corners else [x, y, w, h])
            labels.append(label)
        return image, {"boxes": torch.tensor(boxes, dtype=torch.float32), "labels": torch.tensor(labels)}


def as_lists(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """Collate as the references of torchvision do."""
    images, targets = zip(*rows, strict=True)
    return list(images), list(targets)


@program("dense", "torchvision", sizes_for_corners=("forward-fails", "invalid-labels"))
def faster_rcnn(fault: str = "") -> dict[str, Any]:
    """A detector of torchvision that returns a dict of losses in training mode."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.rpn import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    layers = [nn.Conv2d(i, o, 3, 2, 1) for i, o in ((3, 16), (16, 32), (32, 32))]
    backbone = nn.Sequential(*(m for layer in layers for m in (layer, nn.ReLU())))
    backbone.out_channels = 32
    model = FasterRCNN(
        backbone,
        num_classes=3,
        min_size=64,
        max_size=64,
        rpn_anchor_generator=AnchorGenerator(((12, 24),), ((0.5, 1.0, 2.0),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2),
        rpn_pre_nms_top_n_train=60,
        rpn_post_nms_top_n_train=20,
        box_batch_size_per_image=16,
    )

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return sum(model(*batch).values())

    data = Squares(corners=fault != "sizes_for_corners")
    return {
        "model": model,
        "loader": DataLoader(data, 4, shuffle=True, collate_fn=as_lists),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
    }


@program("dense", "segmentation_models_pytorch", masks_flipped=("dense-targets-misaligned",))
def smp_classes_of_pixels(fault: str = "") -> dict[str, Any]:
    """A decoder of segmentation-models-pytorch with the focal loss."""
    import segmentation_models_pytorch as smp

    model = smp.Linknet("resnet18", encoder_weights=None, encoder_depth=3, classes=3)
    images, masks = regions()
    if fault == "masks_flipped":
        masks = masks.flip(2)
    return made(model, images, masks, batch_size=8, loss_fn=smp.losses.FocalLoss("multiclass"))


@program("dense", "segmentation_models_pytorch", two_sigmoids=("sigmoid-before-bce-with-logits",))
def smp_one_class(fault: str = "") -> dict[str, Any]:
    """A U-Net with the sum of Dice and binary cross-entropy."""
    import segmentation_models_pytorch as smp

    sizes: dict[str, Any] = {"encoder_weights": None, "encoder_depth": 3, "decoder_channels": (32, 16, 8)}
    activation = "sigmoid" if fault == "two_sigmoids" else None
    model = smp.Unet("resnet18", classes=1, activation=activation, **sizes)
    dice = smp.losses.DiceLoss("binary", from_logits=fault != "two_sigmoids")
    images, masks = regions()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        out = model(batch[0])
        return dice(out, batch[1]) + F.binary_cross_entropy_with_logits(out, batch[1])

    return made(model, images, (masks > 0).float()[:, None], batch_size=8, compute_loss=compute_loss)
