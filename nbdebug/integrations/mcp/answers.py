"""The forms of the answers: their JSON schema is what a client is told of each tool."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = ["Bisected", "Check", "CheckList", "Diagnosis", "Explanation", "Verified"]

Status = Literal["completed", "partial", "crashed", "exited", "timed out"]


class Place(BaseModel):
    """A line of the user's code."""

    file: str = Field(description="the file from the root of the server, or the name of the notebook")
    line: int = Field(description="counted from 1; in a notebook from the first line of the cell")
    text: str = Field("", description="the code in that line")
    cell: int | None = Field(None, description="which code cell of the notebook, counted from 1")


class Error(BaseModel):
    """How the program failed."""

    type: str = Field(description="the class of the exception, or the name of the signal")
    message: str
    place: Place | None = Field(None, description="the innermost line of the project")
    traceback: str = Field("", description="the frames of the project")
    explanation: str = Field("", description="what such an error means here, where nbdebug knows it")


class Tried(BaseModel):
    """What came of a fix that was tried on a copy."""

    verdict: Literal["verified", "did not help", "not tried"]
    says: str


class Fix(BaseModel):
    """Something to try."""

    says: str
    code: str = Field("", description="what to write; may be empty")
    diff: str | None = Field(None, description="the change as a unified diff, where the line to change is known")
    diff_ran: bool = Field(False, description="whether the changed source was run on a copy, and the finding was gone")
    can_be_verified: bool = Field(description="whether `verify` can try it on a copy")
    tried: Tried | None = None


class Finding(BaseModel):
    """One problem; its number is its place in the list, counted from 1."""

    check: str = Field(description="the id of the check; `explain` has more")
    severity: Literal["bug", "suspect", "note"] = Field(description="a note is information, never an alarm")
    title: str
    says: str = Field(description="the claim with the numbers of this run")
    where: str = Field("", description="a module path, parameter, batch key or sample")
    place: Place | None = Field(None, description="the line that makes it, where it is known")
    evidence: dict[str, Any] = Field(description="what was measured, the threshold and its source")
    fixes: list[Fix] = []
    explained_by: int | None = Field(None, description="the number of the finding that this one follows from")
    told_apart: str = Field("", description="what was seen when it alone was fixed on a copy")
    why: str = ""


class Untried(BaseModel):
    """Checks that may apply and were left out."""

    reason: str
    checks: list[str]


class CrashedCheck(BaseModel):
    """A check that itself failed: it says nothing about the program."""

    check: str
    reason: str


class Answer(BaseModel):
    """What every run of the program ends with."""

    status: Status = Field(
        description="partial: stopped early, with what was found until then; the last three: the program failed"
    )
    error: Error | None = None
    output: str = Field("", description="the end of what the program printed")
    seconds: float = 0.0


class Diagnosis(Answer):
    """What was found, the most likely cause first."""

    report: str | None = Field(None, description="the name of this report for `verify`")
    verdict: str = ""
    findings: list[Finding] = []
    examined: dict[str, Any] = Field({}, description="model, loss, optimizer, batch and so on, as they were understood")
    notes: list[str] = []
    not_tried: list[Untried] = []
    crashed_checks: list[CrashedCheck] = []
    not_applicable: int = Field(0, description="the number of checks that do not apply here")
    clean: int = Field(0, description="the number of checks that found nothing")


class Verified(Answer):
    """What came of a fix that was tried on a copy."""

    check: str = ""
    verdict: Literal["verified", "did not help", "not tried", ""] = ""
    says: str = ""
    fix: Fix | None = None
    contests: list[dict[str, Any]] = Field([], description="one short training against another for each seed")


class Difference(BaseModel):
    """An ingredient in which the two differ."""

    ingredient: str
    good: str
    bad: str
    exchanged: bool
    note: str = Field("", description="why it cannot be exchanged, or how much of it was")
    good_place: Place | None = None
    bad_place: Place | None = None
    diff: str | None = Field(None, description="of the two sources, from bad to good")


class Cause(BaseModel):
    """Ingredients of good with which bad learns; several where fewer are not enough."""

    ingredients: list[str]
    parts: list[str] = Field([], description="the pieces of a large ingredient that suffice")
    value: float | None = Field(description="the metric that bad reaches with them")
    confirmed: bool = Field(description="also from another random start")


class Commit(BaseModel):
    """A commit, with what came of it where it was trained."""

    hash: str
    subject: str
    date: str
    verdict: Literal["learns", "fails", "not tested", ""] = ""
    value: float | None = None
    reason: str = ""


class Bisected(Answer):
    """What makes bad fail where good learns."""

    outcome: str = Field("", description="explained, both learn, slower, good fails, depends on the start, …")
    says: str = ""
    measure: str = ""
    good_value: float | None = None
    bad_value: float | None = None
    causes: list[Cause] = Field([], description="the first is the answer, the others rescue it as well")
    differences: list[Difference] = []
    training_steps: int = 0
    notes: list[str] = []
    first_bad: Commit | None = Field(None, description="where commits were walked: the first one that fails")
    suspects: list[Commit] = Field([], description="commits of which one is the first that fails")
    walked: list[Commit] = Field([], description="the commits that were trained, in order")
    commit_diff: str = ""


class Check(BaseModel):
    """A check in one line."""

    id: str
    title: str
    stage: str


class CheckList(BaseModel):
    """Every check, in the order of the decision tree."""

    checks: list[Check]


class Explanation(BaseModel):
    """What a check detects, why it matters and what to try."""

    id: str
    title: str
    about: str
    why: str
    remedy: str
    thresholds: dict[str, Any]
