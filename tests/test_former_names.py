"""Names and ids of before are still accepted."""

from __future__ import annotations

import pytest

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.core.renamed import FORMER_IDS
from nbdebug.report import Report
from tests.report.samples import small


@pytest.mark.parametrize(("former", "current"), FORMER_IDS.items())
def test_a_former_id_finds_its_check(former: str, current: str) -> None:
    assert former not in registry.load().checks
    assert registry.find(former).id == registry.find(former.replace("-", "_")).id == current
    assert nbdebug.explain(former).id == current


def test_a_saved_report_with_former_ids_is_read_with_those_of_today() -> None:
    data = small().to_dict()
    finding, result = data["findings"][0], data["results"][0]
    finding["check"], finding["explains"], result["check"] = "worker-twins", ["batch-not-memorised"], "give-it-time"
    read = Report.from_dict(data)
    assert read.findings[0].check == "worker-rng-duplicates" and read.findings[0].explains == ("cannot-overfit-batch",)
    assert read.results[0].check == "still-improving" and read.result("give-it-time") is read.results[0]


def test_former_names_of_the_package() -> None:
    assert nbdebug.Subject is nbdebug.Setup and nbdebug.Twin is nbdebug.Sandbox and nbdebug.exhibit is nbdebug.charts
