"""Judge a recording by the checks that read recordings, without a copy of the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from nbdebug.core.finding import Result
from nbdebug.core.registry import CheckSpec, ProbeSpec, Registry, registry
from nbdebug.core.text import plural
from nbdebug.engine.ranking import ranked
from nbdebug.engine.session import Missing, Session
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recording import Recording
from nbdebug.report import Report
from nbdebug.report.report import environment, now
from nbdebug.setup import Setup
from nbdebug.watch.showing import curves, nothing

__all__ = ["RecordingSession", "checks_of_recordings", "judged"]

FEW = 20  # steps, with which the checks of the loss and of habits begin to speak
ENOUGH = 10  # measurements of the layers, with which every check has something to say
NO_STEP = "No step was recorded: run the training loop inside the block, with the watched model and optimizer."
NO_COPY = "it requires experiments on a copy of the model; run nbdebug.diagnose(model, loader)"


def judged(recording: Recording, thresholds: Mapping[str, Mapping[str, Any]] | None = None) -> Report:
    """Return the report of everything that the checks say about a recording."""
    session = RecordingSession(recording, thresholds)
    order = checks_of_recordings(session.registry)
    started = time.perf_counter()
    session.run(order)
    return Report(
        findings=ranked(session.journal.findings, order),
        results=session.journal.results,
        setup={
            "model": recording.model,
            "optimizer": recording.optimizer,
            "device": recording.device,
            "steps": recording.steps,
            "layers measured every": f"{recording.sampled_every:.3g} steps",
        },
        notes=[*_about(recording), *session.journal.notes, *recording.unseen],
        environment=environment(),
        seconds=time.perf_counter() - started,
        made=now(),
        curves=curves(recording),
    )


def _about(recording: Recording) -> list[str]:
    """Say that nothing was recorded, or that layers were measured too seldom for the checks that look at them."""
    if not recording.steps:
        return [f"{nothing(recording)}: call optimizer.step()." if recording.tally.backwards else NO_STEP]
    if recording.steps < FEW:
        return [f"Only {plural(recording.steps, 'step')} so far: most checks require at least {FEW}."]
    looks = max((len(layer.mean) for layer in recording.layers.values()), default=0)
    if not 0 < looks < ENOUGH <= recording.steps:
        return []
    return [
        f"Layers were measured at {looks} of {recording.steps} steps, which is too few for some checks: "
        "nbdebug.watch(model, optimizer, every=1) measures them at every step."
    ]


class _NoModel:
    """Stands where a session has the user's things: a recording has none, and nothing can be touched."""

    def live_parts(self) -> tuple[Any, ...]:
        return ()


class RecordingSession(Session):
    """A session whose only source is a recording: what needs the model itself is skipped, with the reason."""

    has_model = False

    def __init__(self, recording: Recording, thresholds: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(cast("Setup", _NoModel()), thresholds=thresholds)
        self._evidence[Recording] = recording

    def run(self, checks: Iterable[str], *, first: Callable[[], object] | None = None) -> list[Result]:
        """Run these checks in order; an interrupt is raised, because it is meant for the training that goes on."""
        for check in checks:
            self.run_check(check)
        return self.journal.results

    def _source(self, kind: type) -> ProbeSpec | None:
        return self.registry.reader_for(kind)

    def _experiment(self, spec: ProbeSpec) -> Any:
        """Work evidence out from the recording alone."""
        if not _reads_recording(spec, self.registry):
            return Missing("skipped", NO_COPY)
        needs = {name: self._supply(need) for name, need in spec.needs.items()}
        try:
            return next((found for found in needs.values() if isinstance(found, Missing)), None) or spec.function(
                **needs
            )
        except NotApplicable as why:
            return Missing("skipped", str(why))
        except Exception as error:
            return Missing("crashed", f"the probe {spec.name} failed: {type(error).__name__}: {error}")


def checks_of_recordings(known: Registry = registry) -> list[str]:
    """Return the checks that can be answered from a recording, in the order of the tree."""
    from nbdebug.engine.decision_tree import stages

    wanted = [known.checks[check] for stage in stages(known) for check in stage.checks]
    return [spec.id for spec in wanted if _reads_recording(spec, known)]


def _reads_recording(spec: CheckSpec | ProbeSpec, known: Registry) -> bool:
    """Whether one of the needs is a recording, or is worked out from one, and the others can be done without."""
    reads = {name: _leads_to_recording(need.kind, known) for name, need in spec.needs.items()}
    return any(reads.values()) and all(reads[name] or need.optional for name, need in spec.needs.items())


def _leads_to_recording(kind: type, known: Registry) -> bool:
    if kind is Recording:
        return True
    source = known.reader_for(kind)
    return source is not None and _reads_recording(source, known)
