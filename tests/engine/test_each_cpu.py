"""Rules that look at each CPU."""

from __future__ import annotations

from thpdiag.authoring.cases import parse_case
from thpdiag.engine.check_result import NO, UNKNOWN, YES
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.state_view import state_views
from thpdiag.host.derived import add_derived_facts
from thpdiag.model import Verdict3


def test_a_rule_on_each_cpu_says_nothing_of_a_whole_host() -> None:
    """A figure of the host may be one full CPU or many that are a little busy."""
    rule = next(rule for rule in load_rules([builtin_rules()]) if rule.id == "ALT-26")

    def said(**series: str) -> Verdict3:
        labelled = {name.replace("_cpu", "{cpu=3}"): values for name, values in series.items()}
        found = add_derived_facts(
            parse_case(CaseFile.model_validate({"name": "x", "outcome": "fires", "series": labelled}))
        )
        return next(evaluate([rule], scene)[rule.id].value for scene in state_views(found))

    name = "cpu_ratio.softirq"
    assert said(**{name: "0.9+0x9 @5s"}) is UNKNOWN
    assert said(**{f"{name}_cpu": "0.9+0x9 @5s", name: "0.03+0x9 @5s"}) is YES
    assert said(**{f"{name}_cpu": "0.1+0x9 @5s", name: "0.9+0x9 @5s"}) is NO
