"""Search for hyper-parameters with Optuna: at random, coarse to fine, or Bayesian; pruned, resumable, verified."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdebug.charts import Bars
from nbdebug.core.finding import plain
from nbdebug.errors import BadInput, plainly
from nbdebug.improve.scoring import Metric
from nbdebug.improve.search import DIVERGED, Search
from nbdebug.improve.space import DEFAULT_SPACE, checked_space
from nbdebug.report.progress import control_shown

__all__ = ["Tuning", "tune"]


@dataclass(frozen=True)
class Tuning:
    """Best hyperparameters, how sure that is, and which of them mattered."""

    best: Mapping[str, Any]
    error: float
    measure: str
    verified: tuple[float, ...]
    importance: Mapping[str, float]
    trials: int
    pruned: int
    study: Any = field(repr=False, compare=False, default=None)

    @property
    def bars(self) -> Bars:
        """How much each value mattered."""
        return Bars(
            tuple(self.importance), tuple(self.importance.values()), "Hyperparameter importance", unit="importance"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {name: plain(value) for name, value in vars(self).items() if name != "study"}

    def __str__(self) -> str:
        """Return the figures."""
        again = ", ".join(f"{error:.4g}" for error in self.verified)
        values = ", ".join(f"{name}={_figure(value)}" for name, value in self.best.items())
        mattered = ", ".join(f"{name} {share:.0%}" for name, share in self.importance.items())
        lines = [
            f"{values}: {self.measure} {self.error:.4g}, with other seeds {again}",
            f"{self.trials} trials, {self.pruned} of them pruned",
        ]
        return "\n".join([*lines, f"importance: {mattered}"] if mattered else lines)

    def _repr_html_(self) -> str:
        from nbdebug.views.page import drawn, lines, page

        parts = [drawn(self.bars, "hyperparameter importance")] if self.importance else []
        return page("Best hyperparameters", lines(str(self).splitlines()), *parts)


@plainly
def tune(
    make_setup: Callable[..., Mapping[str, Any]],
    space: Mapping[str, Any] | None = None,
    *,
    trials: int = 20,
    steps: int = 200,
    method: str = "bayesian",
    metric: Metric | None = None,
    storage: str | Path | Any = None,
    name: str = "nbdebug",
    verify: int = 2,
    seconds: float | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Tuning:
    """Search for the values with the smallest validation error and verify the winner with other seeds.

    `make_setup(params)` gives a dict with model, loader, optimizer, val_loader and, where needed, loss_fn. `space`
    names the values: `(low, high)`, `(low, high, "log")` or a list of choices; without it, the learning rate, width,
    depth and weight decay are searched, as far as `make_setup` takes them by name. `method` is "random",
    "coarse-to-fine" or "bayesian". With `storage` the search goes on where it stopped, and several processes or
    machines may call this function with the same storage and name to search together, each making `trials` trials: a
    file that ends in `.log` is a journal, which also works on a network drive; any other file is SQLite; an address
    such as `postgresql://…` or a storage of Optuna's is taken as it is.

    Args:
        make_setup: `make_setup(params)` returns a dict with model, loader, optimizer, val_loader and, where needed,
            loss_fn.
        space: The values to search, by name: `(low, high)`, `(low, high, "log")` or a list of choices.
        trials: The number of trials.
        steps: The training steps of each trial.
        method: "random", "coarse-to-fine" or "bayesian".
        metric: `metric(output, target)` for each sample; by default the error rate or the squared error.
        storage: A file or an address in which the search is kept and shared.
        name: The name of the search in its storage.
        verify: The number of other seeds that the winner is trained with.
        seconds: The limit in seconds; none by default.
        seed: The seed of the experiments.
        progress: Whether a progress bar is shown.
    """
    optuna = _optuna()
    ranges = checked_space(space if space is not None else _default_for(make_setup))
    search = Search(make_setup, ranges, steps, metric, seed)
    with control_shown(progress, "tuning") as control:
        search.control = control
        study = optuna.create_study(
            study_name=name,
            storage=_storage(storage),
            load_if_exists=True,
            sampler=_sampler(method, seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1),
        )
        search.run(study, trials, method, seconds, lambda first: _sampler(method, seed + first, shared=True))
        _refuse_hopeless(study)
        best = dict(study.best_params)
        verified = tuple(search.error_of(best, seed + 1 + extra) for extra in range(verify))
    pruned = len(study.get_trials(states=(optuna.trial.TrialState.PRUNED,)))
    return Tuning(
        best=best,
        error=float(study.best_value),
        measure=search.measure,
        verified=verified,
        importance=_importance(study),
        trials=len(study.trials),
        pruned=pruned,
        study=study,
    )


def _refuse_hopeless(study: Any) -> None:
    """Say so where no trial came to an error at all: then there is no best one."""
    errors = [trial.value for trial in study.get_trials() if trial.value is not None and trial.value < DIVERGED]
    if not errors:
        raise BadInput(
            f"none of {len(study.trials)} trials finished: they diverged, failed or produced NaN",
            where="tune",
            expected="a search space with values that train",
            do="search smaller learning rates; run nbdebug.diagnose to find bugs in the setup",
        )


def _default_for(make_setup: Callable[..., Any]) -> dict[str, Any]:
    taken = inspect.signature(make_setup).parameters
    space = {name: values for name, values in DEFAULT_SPACE.items() if name in taken}
    if not space:
        raise BadInput(
            f"make_setup takes {', '.join(taken) or 'nothing'}, and no space was given",
            where="tune",
            expected=f"a space, or a make_setup that takes some of {', '.join(DEFAULT_SPACE)} by name",
            do='tune(make_setup, {"learning_rate": (1e-5, 1e-1, "log")})',
        )
    return space


def _storage(storage: Any) -> Any:
    """Return what Optuna takes for a storage: an address, or an object for a journal."""
    if not isinstance(storage, (str, Path)) or "://" in str(storage):
        return storage
    if Path(storage).suffix not in (".log", ".journal"):
        return f"sqlite:///{storage}"
    from optuna.storages import JournalStorage, journal

    return JournalStorage(journal.JournalFileBackend(str(storage)))


def _sampler(method: str, seed: int, *, shared: bool = False) -> Any:
    optuna = _optuna()
    samplers = {
        "random": optuna.samplers.RandomSampler,
        "coarse-to-fine": optuna.samplers.RandomSampler,
        "bayesian": optuna.samplers.TPESampler,
    }
    if method not in samplers:
        raise BadInput(
            f"method is {method!r}", where="tune", expected=f"one of {', '.join(samplers)}", do='method="bayesian"'
        )
    # Where others search as well, their trials that still run count as bad ones, so that they are not repeated.
    return samplers[method](seed=seed, **({"constant_liar": True} if shared and method == "bayesian" else {}))


def _importance(study: Any) -> dict[str, float]:
    optuna = _optuna()
    try:
        shares: dict[str, float] = optuna.importance.get_param_importances(study)
    except (ValueError, RuntimeError, ImportError):  # too few trials, or all of them alike
        return {}
    return {name: float(share) for name, share in shares.items()}


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise BadInput(
            "Optuna is not installed",
            where="tune",
            expected="the extra `tune`",
            do='pip install "nbdebug-torch[tune]"',
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
