import pytest

from pybroker.network.context import ConnectionContext
from pybroker.security import principal


def test_a_client_is_anonymous_until_it_has_authenticated() -> None:
    assert ConnectionContext(connection_id=1).principal == "User:ANONYMOUS" == principal.user("ANONYMOUS")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("User:alice", ("User", "alice")), ("User:CN=a:b,O=c", ("User", "CN=a:b,O=c")), ("User:", ("User", ""))],
)
def test_the_name_of_a_principal_may_have_the_separator(text: str, parsed: tuple[str, str]) -> None:
    assert principal.parse(text) == parsed


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_a_text_without_a_type_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="is not TYPE:NAME"):
        principal.parse(text)
