"""Data for held/field_*.py."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine


def digit_tensors(n_train=1200, size=8):
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(d.target)
    if size != 8:
        x = torch.nn.functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))
    x, y = x[order], y[order]
    return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])


def corpus():
    """Characters of the dataset descriptions in scikit-learn, as integers, and the alphabet."""
    text = "\n".join(f().DESCR for f in (load_digits, load_wine, load_breast_cancer, load_diabetes))
    chars = sorted(set(text))
    index = {c: i for i, c in enumerate(chars)}
    return torch.tensor([index[c] for c in text]), chars


def markov_sentences(n, length=14, vocab=30, seed=0):
    """Sequences of tokens 3..vocab+2 where each token allows only two successors (the same rule for every seed)."""
    rule = np.random.RandomState(123).randint(0, vocab, size=(vocab, 2))
    r = np.random.RandomState(seed)
    s = np.zeros((n, length), int)
    s[:, 0] = r.randint(vocab, size=n)
    for t in range(1, length):
        s[:, t] = rule[s[:, t - 1], r.randint(2, size=n)]
    return torch.tensor(s + 3)


def repeats(n, half=8, vocab=20, seed=0):
    """A random string and the same string again: the second half can be told by induction."""
    a = np.random.RandomState(seed).randint(vocab, size=(n, half))
    return torch.tensor(np.concatenate([a, a], 1))


def wave_windows(n, past=48, future=12, seed=0):
    """Windows of a noisy daily wave with a slow trend."""
    r = np.random.RandomState(seed)
    start, phase, slope = r.uniform(0, 100, (n, 1)), r.uniform(0, 6.28, (n, 1)), r.normal(0, 0.01, (n, 1))
    t = np.arange(past + future)[None]
    v = (
        np.sin(2 * np.pi * (t + start) / 12)
        + 0.5 * np.sin(2 * np.pi * t / 24 + phase)
        + slope * t
        + r.normal(0, 0.1, (n, past + future))
    )
    v = torch.tensor(v, dtype=torch.float32).unsqueeze(-1)
    return v[:, :past], v[:, past:]


def survival(n, seed=0, features=6):
    """Exponential times with a nonlinear log-risk, censored at random."""
    r = np.random.RandomState(seed)
    x = r.normal(size=(n, features))
    risk = 1.2 * x[:, 0] - 0.8 * x[:, 1] + 0.7 * (x[:, 2] ** 2 - 1)
    t = r.exponential(np.exp(-risk))
    c = r.exponential(2.0, size=n)
    f = lambda v: torch.tensor(v, dtype=torch.float32)
    return f(x), f(np.minimum(t, c)), torch.tensor(t <= c)
