"""Data for the set-ups in dev/field_*.py: things that ship with scikit-learn, and small synthetic sets."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split


def digits_images(n_train=1200, size=8, classes=None):
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16.0
    y = torch.tensor(d.target)
    if classes is not None:
        keep = torch.isin(y, torch.tensor(list(classes)))
        x, y = x[keep], y[keep] - min(classes)
    if size != 8:
        x = torch.nn.functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    g = torch.Generator().manual_seed(0)
    p = torch.randperm(len(x), generator=g)
    x, y = x[p], y[p]
    x = (x - 0.3) / 0.35
    n_train = min(n_train, int(0.8 * len(x)))
    return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])


def reviews(n, seed=0, vocab=60, min_len=6, max_len=20):
    """Token lists with a class: more good words (4-6) than bad ones (7-9), or the other way round."""
    r = np.random.RandomState(seed)
    rows = []
    for _ in range(n):
        label = int(r.randint(2))
        length = r.randint(min_len, max_len + 1)
        body = r.randint(10, vocab, size=length)
        strong = r.randint(2, 4)
        weak = r.randint(0, strong)
        spots = r.permutation(length)[: strong + weak]
        good, bad = r.randint(4, 7, size=10), r.randint(7, 10, size=10)
        for i, s in enumerate(spots):
            first = i < strong
            body[s] = good[i] if first == bool(label) else bad[i]
        rows.append(([1] + body.tolist() + [2], label))
    return rows


def breast_cancer():
    d = load_breast_cancer()
    a, b, ya, yb = train_test_split(d.data, d.target, test_size=0.25, random_state=0, stratify=d.target)
    m, s = a.mean(0), a.std(0)
    f = lambda v: torch.tensor((v - m) / s, dtype=torch.float32)
    return (f(a), torch.tensor(ya)), (f(b), torch.tensor(yb))


def diabetes():
    d = load_diabetes()
    a, b, ya, yb = train_test_split(d.data, d.target, test_size=0.2, random_state=0)
    m, s, ym, ys = a.mean(0), a.std(0), ya.mean(), ya.std()
    f = lambda v: torch.tensor((v - m) / s, dtype=torch.float32)
    h = lambda v: torch.tensor((v - ym) / ys, dtype=torch.float32)
    return (f(a), h(ya)), (f(b), h(yb))


def blobs_masks(n, size=32, seed=0):
    """Grey images with bright discs; the mask is the discs."""
    r = np.random.RandomState(seed)
    yy, xx = np.mgrid[:size, :size]
    images, masks = [], []
    for _ in range(n):
        mask = np.zeros((size, size), bool)
        for _ in range(r.randint(1, 4)):
            cy, cx, rad = r.uniform(4, size - 4), r.uniform(4, size - 4), r.uniform(3, 7)
            mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < rad**2
        im = 0.8 * mask + r.normal(0, 0.35, (size, size)) + 0.3 * np.sin(xx / r.uniform(3, 9))
        images.append(im), masks.append(mask)
    return (
        torch.tensor(np.array(images), dtype=torch.float32).unsqueeze(1),
        torch.tensor(np.array(masks), dtype=torch.float32).unsqueeze(1),
    )
