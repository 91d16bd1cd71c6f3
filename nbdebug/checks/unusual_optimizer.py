"""Optimizer settings outside the usual range."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import EPS_STORED, OptimizerFacts
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unusual_optimizer"]

# name in the param group -> lowest and highest value in published training recipes, and the usual one
USUAL = {
    "betas[0]": (0.0, 0.99, 0.9),  # 0 and 0.5 are used for adversarial training
    "betas[1]": (0.8, 0.99999, 0.999),
    "eps": (0.0, 0.1, 1e-8),  # 0.1 and 1.0 were used for Inception with RMSprop
    "momentum": (0.0, 0.995, 0.9),  # nnU-Net uses 0.99; 0.999 still averages gradients from a thousand steps ago
    "alpha": (0.8, 0.9999, 0.99),
    "dampening": (0.0, 0.99, 0.0),
}


@check(explains=("batch-not-memorised",))
def unusual_optimizer(optimizer: OptimizerFacts) -> Iterator[Finding]:
    """An optimizer setting is outside the range that is known to train networks.

    nbdebug reads betas, eps, momentum, alpha and dampening of every parameter group, and rounds eps to the precision of
    the parameters.

    Why it matters: a typo (0.09 for 0.9, 1e8 for 1e-8) does not raise an error; it only prevents learning. An eps that
    half precision rounds to zero no longer prevents a division by zero where the gradient is zero.

    What to try: leave everything but the learning rate at its default until the model learns.
    """
    if optimizer.assumed:
        raise NotApplicable("no optimizer was given")
    for index, group in enumerate(optimizer.groups):
        if group.get("eps", 0.0) > 0 == group.get(EPS_STORED):
            yield _lost_eps(optimizer.name, index, group["eps"])
        for name, (low, high, usual) in USUAL.items():
            value = group.get(name)
            if value is None or low <= value <= high:
                continue
            yield Finding(
                f"`{optimizer.name}` has `{name}` = {value:g}; the usual range is {low:g} to {high:g} (default "
                f"{usual:g}).",
                where=f"optimizer.param_groups[{index}]",
                severity="suspect",
                evidence={name: value, "threshold": f"{low:g} to {high:g}", "source": "published training recipes"},
                remedies=(
                    Remedy(
                        "Use the usual value.",
                        f'optimizer.param_groups[{index}]["{name.split("[")[0]}"] = …  # {usual:g}',
                        Patch("set-optimizer-option", {"option": name, "value": usual}),
                    ),
                ),
            )


def _lost_eps(optimizer: str, index: int, eps: float) -> Finding:
    return Finding(
        f"The `eps` of `{optimizer}` ({eps:g}) rounds to zero in the precision of the parameters, so a zero gradient "
        "gives 0/0 = NaN.",
        where=f"optimizer.param_groups[{index}]",
        severity="suspect",
        evidence={"eps": eps, EPS_STORED: 0.0, "threshold": 0, "source": "rounding to half precision"},
        remedies=(
            Remedy(
                "Keep the parameters in float32 and use autocast for half precision.", "with torch.autocast(device): …"
            ),
            Remedy(
                "Use an eps that half precision can represent.",
                f'optimizer.param_groups[{index}]["eps"] = 1e-4',
                Patch("set-optimizer-option", {"option": "eps", "value": 1e-4}),
            ),
        ),
    )
