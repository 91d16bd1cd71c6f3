"""The report as Markdown of a limited length."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nbdebug.errors import BadInput
from nbdebug.report.brief import FEWEST, code, line
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import healthy, small


def test_everything_is_there_without_a_limit() -> None:
    text = small().to_markdown()
    assert text.startswith("# nbdebug: The model passes probabilities")
    for part in ("`head.1`", "2.301", "nn.NLLLoss()", "**verified**", "`vanishing-gradients`", "`label-noise`"):
        assert part in text, part
    assert "crashed: `update-ratio-off`" in text and "3 checks not applicable" in text
    assert "Left out" not in text


@pytest.mark.parametrize("limit", [FEWEST, 700, 1200, 2000, 2900, 100_000])
def test_a_limit_is_kept_and_what_is_left_out_is_named(limit: int) -> None:
    whole, text = small().to_markdown(), small().to_markdown(max_chars=limit)
    assert len(text) <= limit
    assert (text == whole) is (limit >= len(whole))
    assert "softmax-before-cross-entropy" in text
    assert text.count("```") % 2 == 0  # no fence is cut in two
    if 700 <= limit < len(whole):
        assert re.search(r"^Left out for length: .*(findings?|notes?|details)", text, re.MULTILINE)
        assert "falls to 0.01 without it" in text  # the claim with its numbers


def test_the_fix_stays_longer_than_other_findings() -> None:
    text = small().to_markdown(max_chars=900)
    assert "Let the model return raw scores." in text and "vanishing-gradients" not in text
    assert "2 findings, 3 notes, what was not tested, details" in text


@pytest.mark.parametrize("wrong", [0, -1, 399, 2.5, "1000", True])
def test_a_limit_that_holds_nothing_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput, match="max_chars=4000"):
        small().to_markdown(max_chars=wrong)  # type: ignore[arg-type]


def test_a_clean_report_says_so() -> None:
    text = healthy().to_markdown(max_chars=FEWEST)
    assert text.startswith("# nbdebug: No problems found: 15 checks passed")


def test_samples_and_folders_are_left_out() -> None:
    report = small()
    told = replace(report.findings[0], says="The file '/home/anna/secret/a.png' holds 17.", quotes=("17",))
    text = replace(report, findings=[told]).to_markdown()
    assert "secret" not in text and "17" not in text and "a.png" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a *b* _c_ <i> [d](e) # f", r"a \*b\* \_c\_ \<i\> \[d\](e) \# f"),
        ("`fc1.weight` is *dead*", r"`fc1.weight` is \*dead\*"),
        ("one ` only", r"one \` only"),
        ("two\nlines", "two lines"),
        ("- no list", r"\- no list"),
        ("1. no list", r"\1. no list"),
        ("see https://x.y @all", "see https&#58;//x.y &#64;all"),
    ],
)
def test_user_text_is_no_markup(text: str, expected: str) -> None:
    assert line(text) == expected


def test_code_spans_hold_any_name() -> None:
    assert code("a") == "`a`" and code("a`b") == "``a`b``" and code("`") == "`` ` ``" and code("") == ""


def test_every_payload_is_harmless() -> None:
    from markdown_it import MarkdownIt

    text = hostile(PAYLOADS).to_markdown()
    html = MarkdownIt("commonmark").render(text)
    assert not re.search(r"<(?!/?(p|h1|h2|ul|li|code|pre|strong|em|br)\b)", html)
