"""A report in which every text that comes from outside is a payload."""

from collections.abc import Sequence

import numpy as np

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Images, Lines, Table
from nbdebug.core.finding import Finding, Place, Remedy, Result, Verification
from nbdebug.report import Report


def exhibits(text: str) -> list[Exhibit]:
    """One of each kind, with the text wherever a text can be."""
    return [
        Bars((text, text), (1.0, float("nan")), title=text, unit=text, band=(0.5, 2.0)),
        Lines(((text, (0.0, 1.0), (1.0, 2.0)), (text, (0.0,), (1.0,))), title=text, x_label=text, y_label=text),
        HistogramGrid((text, text), (0.0, 1.0, 2.0), ((1.0, 2.0), (2.0, 1.0)), title=text, x_label=text),
        Table((text, text), ((text, 1.0), (2, text)), title=text),
        Images((np.zeros((4, 4), np.uint8),), (text,), title=text),
    ]


def hostile(payloads: Sequence[str], *, every_exhibit: bool = True) -> Report:
    """Put each payload into every sink: ids, places, sentences, numbers, code, reasons, notes, pictures.

    Each payload is in each kind of exhibit, or, to be quicker, the kinds take turns.
    """
    findings = [
        Finding(
            says=text,
            where=text,
            severity=("bug", "suspect", "note")[number % 3],
            evidence={text: text, "list": [text], "dict": {text: text}, "source": text},
            remedies=(Remedy(text, text),),
            explains=(f"symptom {text}",),
            exhibit=exhibit,
            check=text if number else f"cause {text}",
            verifications=[Verification(Remedy(text, text), "verified", text, exhibit=exhibits(text)[1])],
        )
        for turn, text in enumerate(payloads)
        for number, exhibit in enumerate(exhibits(text))
        if every_exhibit or number == turn % 5
    ]
    findings += [Finding(text, text, check=f"symptom {text}") for text in payloads]
    results = [Result(f.check, "found", (f,)) for f in findings]
    for text in payloads:
        results += [Result(text, status, reason=text) for status in ("clean", "skipped", "crashed")]
    return Report(
        findings,
        results,
        setup={"model": payloads[0], **{text: text for text in payloads}},
        notes=list(payloads),
        timings=dict.fromkeys(payloads, 1.0),
        environment={text: text for text in payloads} | {"seed": payloads[0], "nbdebug": payloads[0]},
        seconds=1.0,
        made=payloads[0],
        places={text: Place(text, 3, text) for text in payloads},
        symptom=payloads[0],
        answers={text: text for text in payloads},
        curves=tuple(Lines(((text, (0.0, 1.0), (1.0, 2.0)),), title=text) for text in payloads[:20]),
    )
