"""One exchange: an ingredient of the training, what the textbook has in its place, and the cause that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.remedy import Patch, Remedy

__all__ = ["REPAIR", "Exchange", "one"]

REPAIR = ""  # helps whatever the cause is, so it is offered and never named
HALF_WAY = 0.5  # to the best exchange: a rescue
NEARLY_BEST = 0.8  # of the gain of the best exchange: what helps most trainings a little has to do more; our choice


@dataclass(frozen=True)
class Exchange:
    """What is exchanged, the check that it belongs to, the cause in words, and the fix.

    `where` is the place that a finding names. Without a check it is a repair, which names no cause. `is_hypothesis`
    says that a check of this run suggests it, `is_contradiction` that this check stands by itself. `also` is a second
    check whose problem is fixed with it, and `share` how much of the best exchange's gain a cause has to bring.
    """

    name: str
    check: str
    cause: str
    where: str
    remedies: tuple[Remedy, ...]
    is_hypothesis: bool = False
    is_contradiction: bool = False
    also: str = ""
    share: float = HALF_WAY

    @property
    def patches(self) -> tuple[Patch, ...]:
        """What is done to the copy."""
        return tuple(remedy.patch for remedy in self.remedies if remedy.patch is not None)


def one(
    name: str,
    check: str,
    cause: str,
    where: str,
    *fixes: tuple[str, str, Patch],
    also: str = "",
    is_general: bool = False,
) -> Exchange:
    """Return an exchange with these fixes: what each says, its code, its patch.

    `is_general` says that nothing in the program asks for it, so that it has to come near the best.
    """
    remedies = tuple(Remedy(says, code, patch) for says, code, patch in fixes)
    return Exchange(name, check, cause, where, remedies, also=also, share=NEARLY_BEST if is_general else HALF_WAY)
