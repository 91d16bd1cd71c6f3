"""Search for hyper-parameters with Optuna: at random, coarse to fine, or Bayesian; pruned, resumable, verified."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nbdebug.control import Control
from nbdebug.errors import BadInput, Cancelled, OutOfTime, plainly
from nbdebug.exhibit import Bars
from nbdebug.finding import plain
from nbdebug.improve.scoring import Metric, judged
from nbdebug.improve.space import DEFAULT_SPACE, Range, checked_space, narrowed, suggest
from nbdebug.progress import control_shown
from nbdebug.subject import Subject
from nbdebug.twin import Twin, guarded, make_twin

if TYPE_CHECKING:
    import optuna

__all__ = ["Tuning", "tune"]

DIVERGED = 1e9  # an error that a sampler can work with, as infinity cannot
REPORTS = 8  # times in a trial that its error is looked at, so that a bad one can end early


@dataclass(frozen=True)
class Tuning:
    """The best values, how sure that is, and which of them mattered."""

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
        return Bars(tuple(self.importance), tuple(self.importance.values()), "What mattered", unit="importance")

    def to_dict(self) -> dict[str, Any]:
        """Give everything that can be written down."""
        return {name: plain(value) for name, value in vars(self).items() if name != "study"}

    def __str__(self) -> str:
        """Give the figures."""
        again = ", ".join(f"{error:.4g}" for error in self.verified)
        values = ", ".join(f"{name}={_figure(value)}" for name, value in self.best.items())
        mattered = ", ".join(f"{name} {share:.0%}" for name, share in self.importance.items())
        lines = [
            f"{values}: {self.measure} {self.error:.4g}, with other seeds {again}",
            f"{self.trials} trials, {self.pruned} of them ended early",
        ]
        return "\n".join([*lines, f"what mattered: {mattered}"] if mattered else lines)

    def _repr_html_(self) -> str:
        from nbdebug.show.page import drawn, lines, page

        parts = [drawn(self.bars, "how much each value mattered")] if self.importance else []
        return page("The best values", lines(str(self).splitlines()), *parts)


@plainly
def tune(
    make_setup: Callable[..., Mapping[str, Any]],
    space: Mapping[str, Any] | None = None,
    *,
    trials: int = 20,
    steps: int = 200,
    method: str = "bayesian",
    metric: Metric | None = None,
    storage: str | Path | None = None,
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
    "coarse-to-fine" or "bayesian". With `storage`, a file or an address that Optuna knows, the search goes on where it
    stopped, and several processes or machines may share it.
    """
    optuna = _optuna()
    ranges = checked_space(space if space is not None else _default_for(make_setup))
    search = _Search(make_setup, ranges, steps, metric, seed)
    where = f"sqlite:///{storage}" if storage is not None and "://" not in str(storage) else storage
    with control_shown(progress, "tuning") as control:
        search.control = control
        study = optuna.create_study(
            study_name=name,
            storage=None if where is None else str(where),
            load_if_exists=True,
            sampler=_sampler(method, seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1),
        )
        search.run(study, trials, method, seconds)
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


@dataclass
class _Search:
    make_setup: Callable[..., Mapping[str, Any]]
    ranges: dict[str, Range]
    steps: int
    metric: Metric | None
    seed: int
    control: Control = field(default_factory=Control)
    measure: str = ""

    def run(self, study: optuna.Study, trials: int, method: str, seconds: float | None) -> None:
        """Run the trials; coarse to fine means half of them over the whole space and half around the best fifth."""
        import optuna

        begun = time.monotonic()
        coarse = trials // 2 if method == "coarse-to-fine" else trials
        for number in range(trials):
            if seconds is not None and number and time.monotonic() - begun > seconds:
                return
            if number == coarse:
                done = [t for t in study.get_trials() if t.state == optuna.trial.TrialState.COMPLETE]
                done.sort(key=lambda trial: trial.value if trial.value is not None else float("inf"))
                self.ranges = narrowed(self.ranges, [trial.params for trial in done[: max(2, len(done) // 5)]])
            trial = study.ask()
            params = {name: suggest(trial, name, values) for name, values in self.ranges.items()}
            self._one(study, trial, params, number, trials)

    def _one(self, study: optuna.Study, trial: optuna.Trial, params: dict[str, Any], number: int, trials: int) -> None:
        import optuna

        def report(step: int, error: float) -> None:
            self.control.progress((number + step / REPORTS) / trials, f"trial {number + 1} of {trials}: {error:.4g}")
            trial.report(error, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        failed = optuna.trial.TrialState.FAIL
        try:
            study.tell(trial, self.error_of(params, self.seed, report))
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        except (KeyboardInterrupt, Cancelled, OutOfTime):
            study.tell(trial, state=failed)
            raise
        except FloatingPointError:  # it diverged: the worst that a trial can do, and worth knowing for the sampler
            study.tell(trial, DIVERGED)

    def error_of(self, params: dict[str, Any], seed: int, report: Callable[[int, float], None] | None = None) -> float:
        """Make the set-up anew, train it on a copy, and give its validation error."""
        return guarded(lambda: self._trained(params, report), (), self.control, seed=seed)

    def _trained(self, params: dict[str, Any], report: Callable[[int, float], None] | None) -> float:
        setup = dict(_called(self.make_setup, params))
        if setup.get("val_loader") is None:
            raise BadInput(
                "the set-up has no val_loader",
                where="make_setup",
                expected="a dict with model, loader, optimizer and val_loader",
                do="hold out a part of the data: what is tuned on the training data overfits",
            )
        twin = make_twin(Subject(**setup), self.control)
        twin.ready_to_train()
        error, feed, done = float("nan"), twin.subject.feed, 0
        marks = set(np.linspace(self.steps / REPORTS, self.steps, REPORTS).astype(int).tolist())
        while done < self.steps:
            before = done
            for raw in feed:
                twin.plain_step(twin.subject.wrap(raw).to(twin.device))
                done += 1
                if done in marks:
                    error = self._validated(twin)
                    if report is not None:
                        report(sum(mark <= done for mark in marks), error)
                if done >= self.steps:
                    break
            if done == before:
                raise BadInput("the loader gives no batch", where="make_setup", expected="batches", do="look at it")
        return error

    @torch.no_grad()
    def _validated(self, twin: Twin) -> float:
        assert twin.subject.val_feed is not None
        with twin.mode(False):
            parts = [judged(twin, twin.subject.wrap(raw).to(twin.device), self.metric) for raw in twin.subject.val_feed]
        self.measure = parts[0].measure
        error = float(torch.cat([part.errors for part in parts]).double().mean())
        if not np.isfinite(error):
            raise FloatingPointError(f"the error is {error}")
        return error


def _called(make_setup: Callable[..., Mapping[str, Any]], params: dict[str, Any]) -> Mapping[str, Any]:
    """Call with one dict, or by names where the function names them."""
    names = list(inspect.signature(make_setup).parameters)
    return make_setup(**params) if set(params) <= set(names) else make_setup(params)


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


def _sampler(method: str, seed: int) -> Any:
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
    return samplers[method](seed=seed)


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
