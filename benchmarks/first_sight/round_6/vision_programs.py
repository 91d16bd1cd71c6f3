"""Programs on images: classification, transfer, segmentation, autoencoders."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair


def digits_split(seed=0, n_val=360):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images = images.reshape(-1, 8, 8).astype(np.float32)[order]
    labels = labels[order].astype(np.int64)
    return images[n_val:], labels[n_val:], images[:n_val], labels[:n_val]


def normalized(images):
    return torch.from_numpy((images / 16.0 - 0.305) / 0.376).unsqueeze(1)


def digit_loaders(batch_size=32):
    xt, yt, xv, yv = digits_split()
    train = TensorDataset(normalized(xt), torch.from_numpy(yt))
    val = TensorDataset(normalized(xv), torch.from_numpy(yv))
    return DataLoader(train, batch_size=batch_size, shuffle=True), DataLoader(val, batch_size=batch_size)


# ----------------------------------------------------------------------------------------------------------------------
def sign_image(kind, rng, size=16):
    """A traffic sign as cv2 would return it: height, width, channel, uint8."""
    img = rng.integers(60, 120, (size, size, 3)).astype(np.float64)
    cy, cx = rng.integers(5, size - 5, 2)
    yy, xx = np.mgrid[:size, :size]
    if kind == 0:
        where = (abs(yy - cy) <= 3) & (abs(xx - cx) <= 3)
    elif kind == 1:
        where = (abs(yy - cy) <= 1) | (abs(xx - cx) <= 1)
        where &= (abs(yy - cy) <= 4) & (abs(xx - cx) <= 4)
    elif kind == 2:
        r = np.hypot(yy - cy, xx - cx)
        where = (r > 2.2) & (r < 4.2)
    else:
        where = (abs(yy - cy) + abs(xx - cx)) <= 3
    colour = rng.integers(0, 256, 3)
    while abs(colour - 90).max() < 70:
        colour = rng.integers(0, 256, 3)
    img[where] = colour
    return img.clip(0, 255).astype(np.uint8)


class SignDataset(Dataset):
    def __init__(self, n, seed, permute):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 4, n)
        self.images = [sign_image(k, rng) for k in self.labels]
        self.permute = permute

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        img = torch.from_numpy(self.images[idx]).float() / 255
        if self.permute:
            img = img.permute(2, 0, 1).contiguous()
        else:
            img = img.view(3, img.shape[0], img.shape[1])
        return (img - 0.4) / 0.2, int(self.labels[idx])


class SignNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc1 = nn.Linear(32, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.conv3(x)).amax((2, 3))
        return self.fc2(F.relu(self.fc1(x)))


@pair(
    "Images of height x width x channel are brought to channel x height x width with view instead of permute, which "
    "scrambles them.",
    where="batch[0]",
    source="stackoverflow: PyTorch image from OpenCV, view(3, H, W) or permute, network does not learn",
    accepted=("misread-image-layout", "reshape-mixes-axes"),
)
def fir_traffic_signs_view(faulty):
    torch.manual_seed(1)
    model = SignNet()
    return {
        "model": model,
        "loader": DataLoader(SignDataset(640, 1, permute=not faulty), batch_size=32, shuffle=True),
        "val_loader": DataLoader(SignDataset(160, 2, permute=not faulty), batch_size=32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": ["square", "cross", "ring", "diamond"],
    }


# ----------------------------------------------------------------------------------------------------------------------
class Transformed(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = self.images[i]
        if self.transform is not None:
            x = self.transform(x)
        return x, self.labels[i]


def to_tensor(img):
    return torch.as_tensor(img, dtype=torch.float32).unsqueeze(0) / 16.0


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


@pair(
    "The training images are normalized, the validation images only scaled to [0, 255]: Normalize was left out of the "
    "validation transform.",
    where="val_loader",
    source="github zylo117/Yet-Another-EfficientDet-Pytorch issue #261: Difference between train and inference of "
    "preprocess code of image",
    accepted=("split-treated-differently", "split-shift"),
)
def fir_val_transform_without_normalize(faulty):
    torch.manual_seed(2)
    xt, yt, xv, yv = digits_split(2)

    def train_tf(img):
        return (to_tensor(img) - 0.305) / 0.376

    def val_tf(img):
        return torch.as_tensor(img).unsqueeze(0) * (255 / 16)

    model = small_cnn()
    return {
        "model": model,
        "loader": DataLoader(Transformed(xt, yt, train_tf), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Transformed(xv, yv, val_tf if faulty else train_tf), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class Backbone(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


@pair(
    "model.fc is replaced after the optimizer was made: the new head is not among its parameters and stays random.",
    where="fc",
    source="discuss.pytorch.org: Changing the last layer after creating the optimizer, low accuracy in fine-tuning",
    accepted=("parameters-missing-from-optimizer",),
)
def fir_new_head_after_optimizer(faulty):
    torch.manual_seed(3)
    model = Backbone(num_classes=100)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.fc = nn.Linear(32, 10)
    if not faulty:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train, val = digit_loaders()
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


# ----------------------------------------------------------------------------------------------------------------------
class DropoutNet(nn.Module):
    def __init__(self, functional):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 20, 3, padding=1)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)
        self.functional = functional

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = x.flatten(1)
        x = F.relu(self.fc1(x))
        if self.functional:
            x = F.dropout(x, 0.5)
        else:
            x = F.dropout(x, 0.5, training=self.training)
        return self.fc2(x)


@pair(
    "F.dropout is called without training=self.training and drops half of the features in evaluation too.",
    where="",
    source="github delip/PyTorchNLPBook issue #28: dropout error; pytorch/pytorch issue #11999: Dropout still active "
    "in .eval() mode",
    accepted=("nondeterministic-eval",),
)
def fir_functional_dropout_in_eval(faulty):
    torch.manual_seed(4)
    model = DropoutNet(functional=faulty)
    train, val = digit_loaders(64)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": F.cross_entropy,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
def conv_bn(cin, cout, momentum):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout, momentum=momentum), nn.ReLU(inplace=True)
    )


@pair(
    "BatchNorm's momentum is 0.0003, taken over from a repository that trains for weeks: after a few epochs on a small "
    "dataset the running statistics are still those of the initialization, and evaluation is useless.",
    where="0.1",
    source="github deeplabv3+ ports (bn_mom=0.0003) / discuss.pytorch.org: model.eval() gives terrible results, "
    "train mode is fine",
    accepted=("batchnorm-misused", "train-eval-gap"),
)
def fir_batchnorm_momentum_of_a_paper(faulty):
    torch.manual_seed(5)
    m = 0.0003 if faulty else 0.1
    model = nn.Sequential(
        conv_bn(1, 16, m),
        conv_bn(16, 16, m),
        nn.MaxPool2d(2),
        conv_bn(16, 32, m),
        conv_bn(32, 32, m),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    train, val = digit_loaders(32)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
def cell_image(rng, size=24):
    """A microscope image with one to three bright cells, and their mask."""
    yy, xx = np.mgrid[:size, :size]
    mask = np.zeros((size, size), bool)
    for _ in range(rng.integers(1, 4)):
        cy, cx = rng.integers(3, size - 3, 2)
        mask |= ((yy - cy) / rng.uniform(2, 4.5)) ** 2 + ((xx - cx) / rng.uniform(2, 4.5)) ** 2 < 1
    img = 0.35 + 0.3 * mask + rng.normal(0, 0.12, (size, size))
    return img.astype(np.float32), mask


class CellDataset(Dataset):
    def __init__(self, n, seed, augment, flip_mask=True, mask_max=1.0):
        rng = np.random.default_rng(seed)
        self.items = [cell_image(rng) for _ in range(n)]
        self.augment, self.flip_mask, self.mask_max = augment, flip_mask, mask_max

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = self.items[i]
        img = torch.from_numpy((img - 0.4) / 0.2)[None]
        # masks were saved as PNG, black and white
        mask = torch.from_numpy(mask.astype(np.uint8) * 255)[None].float() / 255 * self.mask_max
        if self.augment and torch.rand(1) < 0.5:
            img = img.flip(-1)
            if self.flip_mask:
                mask = mask.flip(-1)
        if self.augment and torch.rand(1) < 0.5:
            img = img.flip(-2)
            if self.flip_mask:
                mask = mask.flip(-2)
        return img, mask


class MiniUNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.conv = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())
        self.head = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        return self.head(self.conv(torch.cat([self.up(b), a], 1)))


@pair(
    "The random flips are applied to the image but not to its mask, so three masks in four belong to another picture.",
    where="batch[1]",
    source="github albumentations-team/albumentations issue #1056: Applying the same random transformation on the "
    "images and on the masks for segmentation task",
    accepted=("dense-targets-misaligned",),
)
def fir_cells_mask_not_flipped(faulty):
    torch.manual_seed(6)
    model = MiniUNet()
    train = CellDataset(240, 1, augment=True, flip_mask=not faulty)
    val = CellDataset(60, 2, augment=False)
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=8, shuffle=True),
        "val_loader": DataLoader(val, batch_size=8),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "The masks are read from PNG files with values 0 and 255 and go into BCEWithLogitsLoss without being divided by 255: "
    "the loss falls to minus thousands.",
    where="batch[1]",
    source="github milesial/Pytorch-UNet issue #78: When i run this code ,get loss is negative??",
    accepted=("invalid-labels", "loss-unbounded-below", "unscaled-targets"),
)
def fir_cells_mask_of_255(faulty):
    torch.manual_seed(7)
    model = MiniUNet()
    top = 255.0 if faulty else 1.0
    train = CellDataset(200, 3, augment=True, mask_max=top)
    val = CellDataset(48, 4, augment=False, mask_max=top)
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=8, shuffle=True),
        "val_loader": DataLoader(val, batch_size=8),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.RMSprop(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class Autoencoder(nn.Module):
    def __init__(self, sigmoid):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
        self.decoder = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 64))
        if sigmoid:
            self.decoder.append(nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


class SelfTargets(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.x[i]


@pair(
    "The decoder ends in a Sigmoid but the images it must reproduce were normalized to mean 0 and deviation 1.",
    where="decoder.3",
    source="discuss.pytorch.org: Autoencoder reconstructions washed out, Normalize((0.5,), (0.5,)) and a Sigmoid output",
    accepted=("clamped-output",),
)
def fir_autoencoder_sigmoid_on_normalized(faulty):
    torch.manual_seed(8)
    xt, _, xv, _ = digits_split(8)
    xt, xv = normalized(xt).flatten(1), normalized(xv).flatten(1)
    model = Autoencoder(sigmoid=faulty)
    return {
        "model": model,
        "loader": DataLoader(SelfTargets(xt), batch_size=32, shuffle=True),
        "val_loader": DataLoader(SelfTargets(xv), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class VAE(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.fc1 = nn.Linear(64, 64)
        self.fc_mu = nn.Linear(64, z)
        self.fc_logvar = nn.Linear(64, z)
        self.fc3 = nn.Linear(z, 64)
        self.fc4 = nn.Linear(64, 64)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc_mu(h), self.fc_logvar(h)

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


@pair(
    "The reconstruction error is averaged over all pixels and images while the KL term is summed over the batch: KL "
    "outweighs it by thousands and every reconstruction is the same mean image.",
    where="",
    source="github zdebruine/MMVAE pull request #19: fix loss calculation for VAE (KL summed, MSE averaged)",
    accepted=("loss-terms-reduced-differently", "loss-terms-unbalanced"),
)
def fir_vae_kl_summed_reconstruction_averaged(faulty):
    torch.manual_seed(9)
    xt, _, xv, _ = digits_split(9)
    xt, xv = torch.from_numpy(xt).flatten(1) / 16, torch.from_numpy(xv).flatten(1) / 16
    model = VAE()

    def vae_loss(outputs, x):
        recon, mu, logvar = outputs
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        if faulty:
            return F.binary_cross_entropy(recon, x) + kld
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        return (bce + kld) / x.size(0)

    return {
        "model": model,
        "loader": DataLoader(SelfTargets(xt), batch_size=64, shuffle=True),
        "val_loader": DataLoader(SelfTargets(xv), batch_size=64),
        "loss_fn": vae_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class Cutout:
    """Cutout as for CIFAR-10: one hole at a random place."""

    def __init__(self, length):
        self.length = length

    def __call__(self, img):
        _, h, w = img.shape
        y, x = int(torch.randint(h, (1,))), int(torch.randint(w, (1,)))
        half = self.length // 2
        img = img.clone()
        img[:, max(0, y - half) : y + half, max(0, x - half) : x + half] = img.min()
        return img


@pair(
    "Cutout with a hole of ten pixels is applied to images of eight by eight: often little or nothing of the digit is "
    "left, with its label.",
    where="batch[0]",
    source="kaggle digit recognizer / discuss.pytorch.org: train accuracy far below validation accuracy after adding "
    "augmentation",
    accepted=("destructive-augmentation",),
)
def fir_cutout_larger_than_the_digit(faulty):
    torch.manual_seed(10)
    xt, yt, xv, yv = digits_split(10)
    cutout = Cutout(10 if faulty else 2)

    def base(img):
        return (to_tensor(img) - 0.305) / 0.376

    model = small_cnn()
    return {
        "model": model,
        "loader": DataLoader(Transformed(xt, yt, lambda im: cutout(base(im))), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Transformed(xv, yv, base), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class FolderWithCsv(Dataset):
    """Images from a folder, labels from the rows of a csv."""

    def __init__(self, folder, rows, natural_order):
        names = list(folder)
        if natural_order:
            names = [name for name, _ in rows]
        else:
            names = sorted(names)  # img_1, img_10, img_100, ...
        self.images = [folder[n] for n in names]
        self.labels = [label for _, label in rows]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return (to_tensor(self.images[i]) - 0.305) / 0.376, self.labels[i]


@pair(
    "The files are sorted by name (img_1, img_10, img_100, ...) but the labels are in the order of the csv: images and "
    "labels do not belong together.",
    where="batch[1]",
    source="stackoverflow: custom PyTorch Dataset, accuracy stays at chance (os.listdir order and csv order differ)",
    accepted=("labels-unrelated-to-inputs", "noisy-labels"),
)
def fir_listdir_order_and_csv_order(faulty):
    torch.manual_seed(11)
    xt, yt, xv, yv = digits_split(11)
    folder = {f"img_{i}.png": x for i, x in enumerate(xt)}
    rows = [(f"img_{i}.png", int(y)) for i, y in enumerate(yt)]
    vfolder = {f"img_{i}.png": x for i, x in enumerate(xv)}
    vrows = [(f"img_{i}.png", int(y)) for i, y in enumerate(yv)]
    model = small_cnn()
    return {
        "model": model,
        "loader": DataLoader(FolderWithCsv(folder, rows, not faulty), batch_size=32, shuffle=True),
        "val_loader": DataLoader(FolderWithCsv(vfolder, vrows, not faulty), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
FRUIT = ["apple", "banana", "cherry", "kiwi", "lemon", "mango", "orange", "peach", "pear", "plum"]


class NamedImages(Dataset):
    def __init__(self, images, names, class_to_idx=None):
        if class_to_idx is None:
            # numbers the classes in the order in which they turn up
            class_to_idx = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self.class_to_idx = class_to_idx
        self.x = ((images / 16 - 0.305) / 0.376).astype(np.float32)[:, None]
        self.y = [class_to_idx[n] for n in names]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), self.y[i]


@pair(
    "Train and validation set each number the classes for themselves, in the order of their appearance, so a number "
    "means another class in validation.",
    where="val_loader",
    source="discuss.pytorch.org: training accuracy 99%, validation accuracy below chance (class_to_idx differs)",
    accepted=("split-treated-differently", "split-shift"),
)
def fir_class_numbers_differ_in_validation(faulty):
    torch.manual_seed(12)
    xt, yt, xv, yv = digits_split(12)
    train = NamedImages(xt, [FRUIT[i] for i in yt])
    val = NamedImages(xv, [FRUIT[i] for i in yv], None if faulty else train.class_to_idx)
    model = small_cnn()
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=32, shuffle=True),
        "val_loader": DataLoader(val, batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": list(train.class_to_idx),
    }


# ----------------------------------------------------------------------------------------------------------------------
class ScaledImages(Dataset):
    def __init__(self, images, labels, as_uint8):
        images = images * (255 / 16)
        images = images / 255.0
        if as_uint8:
            images = images.astype("uint8")  # "PIL wants uint8"
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.tensor(self.images[i], dtype=torch.float32)[None], self.labels[i]


@pair(
    "The images are divided by 255 and then cast to uint8: every pixel becomes 0 except those that were fully white.",
    where="batch[0]",
    source="stackoverflow: image turns black after normalization, astype('uint8') after dividing by 255",
    accepted=(),
)
def fir_uint8_after_scaling(faulty):
    """No id fits. Right would be a sentence such as: the inputs take only the values 0 and 1, nearly all are 0."""
    torch.manual_seed(13)
    xt, yt, xv, yv = digits_split(13)
    model = small_cnn()
    return {
        "model": model,
        "loader": DataLoader(ScaledImages(xt, yt, faulty), batch_size=32, shuffle=True),
        "val_loader": DataLoader(ScaledImages(xv, yv, faulty), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
