"""The trials of a search for hyper-parameters: each makes a set-up anew, trains a copy, and is judged on the way."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.errors import BadInput
from nbdebug.improve.scoring import Metric, judged
from nbdebug.improve.space import Range, narrowed, suggest
from nbdebug.sandbox import Sandbox, guarded, make_sandbox
from nbdebug.setup import Setup

if TYPE_CHECKING:
    import optuna

__all__ = ["DIVERGED", "Search"]

DIVERGED = 1e9  # an error that a sampler can work with, as infinity cannot
REPORTS = 8  # times in a trial that its error is looked at, so that a bad one can end early


@dataclass
class Search:
    """One search: how a set-up is made, what is varied, and how long each trial trains."""

    make_setup: Callable[..., Mapping[str, Any]]
    ranges: dict[str, Range]
    steps: int
    metric: Metric | None
    seed: int
    control: Control = field(default_factory=Control)
    measure: str = ""

    def run(
        self, study: optuna.Study, trials: int, method: str, seconds: float | None, sampler: Callable[[int], Any]
    ) -> None:
        """Run the trials; coarse to fine means half of them over the whole space and half around the best fifth.

        A search that others take part in, or that goes on, draws by the number of its first trial, which no other
        process has: with one seed for all, each process would try the same values.
        """
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
            if not number and trial.number:
                study.sampler = sampler(trial.number)
            params = {name: suggest(trial, name, values) for name, values in self.ranges.items()}
            self._one(study, trial, params, number, trials)

    def _one(self, study: optuna.Study, trial: optuna.Trial, params: dict[str, Any], number: int, trials: int) -> None:
        import optuna

        def report(step: int, error: float) -> None:
            self.control.progress((number + step / REPORTS) / trials, f"trial {number + 1} of {trials}: {error:.4g}")
            trial.report(error, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            study.tell(trial, self.error_of(params, self.seed, report))
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        except FloatingPointError:  # it diverged: the worst that a trial can do, and worth knowing for the sampler
            study.tell(trial, DIVERGED)
        except BaseException:  # also of the user's own; or the trial would count as running for ever
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise

    def error_of(self, params: dict[str, Any], seed: int, report: Callable[[int, float], None] | None = None) -> float:
        """Make the set-up anew, train it on a copy, and give its validation error."""
        return guarded(lambda: self._trained(params, report), (), self.control, seed=seed)

    def _trained(self, params: dict[str, Any], report: Callable[[int, float], None] | None) -> float:
        setup = dict(_called(self.make_setup, params))
        if setup.get("val_loader") is None:
            raise BadInput(
                "the setup has no val_loader",
                where="make_setup",
                expected="a dict with model, loader, optimizer and val_loader",
                do="hold out part of the data: tuning on the training data overfits",
            )
        sandbox = make_sandbox(Setup(**setup), self.control)
        sandbox.ready_to_train()
        error, feed, done = float("nan"), sandbox.setup.feed, 0
        marks = set(np.linspace(self.steps / REPORTS, self.steps, REPORTS).astype(int).tolist())
        while done < self.steps:
            before = done
            for raw in feed:
                sandbox.plain_step(sandbox.setup.wrap(raw).to(sandbox.device))
                done += 1
                if done in marks:
                    error = self._validated(sandbox)
                    if report is not None:
                        report(sum(mark <= done for mark in marks), error)
                if done >= self.steps:
                    break
            if done == before:
                raise BadInput(
                    "the loader yields no batch", where="make_setup", expected="batches", do="check the loader"
                )
        return error

    @torch.no_grad()
    def _validated(self, sandbox: Sandbox) -> float:
        assert sandbox.setup.val_feed is not None
        with sandbox.mode(False):
            parts = [
                judged(sandbox, sandbox.setup.wrap(raw).to(sandbox.device), self.metric)
                for raw in sandbox.setup.val_feed
            ]
        self.measure = parts[0].measure
        error = float(torch.cat([part.errors for part in parts]).double().mean())
        if not np.isfinite(error):
            raise FloatingPointError(f"the error is {error}")
        return error


def _called(make_setup: Callable[..., Mapping[str, Any]], params: dict[str, Any]) -> Mapping[str, Any]:
    """Call with one dict, or by names where the function names them."""
    names = list(inspect.signature(make_setup).parameters)
    return make_setup(**params) if set(params) <= set(names) else make_setup(params)
