"""Rules make users' names of distinguished names, as Kafka's do."""

from __future__ import annotations

import pytest

from pybroker.security.tls.mapping_rules import MappingRules, NoRuleError

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("", DUKE, DUKE),
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U , DEFAULT", DUKE, "DUKE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L,DEFAULT", DUKE, "duke@serviceusers"),
        ("RULE:^cn=(.*?),.*$/$1/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", DUKE, "duke"),
        ("RULE:^CN=x$/y/,DEFAULT", DUKE, DUKE),
        (r"RULE:^CN=([^\/]+)\/x$/\$$1\//", "CN=a/x", "$a/"),
        ("RULE:CN=(.)/$12/", "CN=a", "a2"),
        ("RULE:.*/u/", "CN=a", "uu"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(rules: str, name: str, user: str) -> None:
    assert MappingRules(rules).user_name(name) == user


def test_a_name_that_no_rule_fits_has_no_user() -> None:
    with pytest.raises(NoRuleError, match="CN=Duke"):
        MappingRules("RULE:^CN=x$/y/").user_name(DUKE)


@pytest.mark.parametrize("rules", ["deault", "RULE:^CN=(.*?)$/$1", "DEFAULT,RULE:a/b/Q", "RULE:(/x/", "RULE:(a)/$2/"])
def test_rules_that_cannot_be_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|regular expression|\$2"):
        MappingRules(rules)
