"""The settings by which a broker is let into etcd: each combination that cannot work has its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.etcd.access import Access, access_of, is_stale
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.advice import advice_for
from pybroker.metadata.store.etcd.gateway import RefusedError

PLAIN, SECURE = parse("http://a:1").endpoints, parse("https://a:1,https://b:1").endpoints


def test_the_password_comes_from_a_setting_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(" with spaces \r\n")
    assert access_of(BrokerConfig(metadata_store_user="u", metadata_store_password="p"), PLAIN) == Access(user="u", password="p")
    found = access_of(BrokerConfig(metadata_store_user="u", metadata_store_password_file=str(path)), PLAIN)
    assert found.password == " with spaces "
    assert "spaces" not in repr(found)
    assert access_of(BrokerConfig(), PLAIN) == Access()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"metadata_store_user": "u"}, "metadata.store.user is set without a password: set metadata.store.password or"),
        ({"metadata_store_password": "secret"}, "is set without metadata.store.user"),
        ({"metadata_store_password": "secret", "metadata_store_password_file": "/none"}, "use only one of them"),
        ({"metadata_store_password_file": "/none/file"}, "metadata.store.password.file=/none/file cannot be read: No such file"),
        ({"metadata_store_ssl_ca_file": "/ca"}, "write https://"),
        ({"metadata_store_ssl_key_file": "/key"}, "without metadata.store.ssl.certificate.file"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as caught:
        access_of(BrokerConfig(**settings), PLAIN)
    assert "secret" not in str(caught.value)


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    with pytest.raises(StoreError, match=rf"for etcd \({missing}\) cannot be used: .*No such file"):
        access_of(BrokerConfig(metadata_store_ssl_ca_file=missing), SECURE).context()


def test_a_user_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(StoreError, match=r"metadata\.store\.user") as caught:
        parse("http://somebody:secret@a:2379")
    assert "secret" not in str(caught.value)


def test_refusals_that_another_token_mends() -> None:
    assert is_stale(16, "etcdserver: invalid auth token")
    assert is_stale(3, "etcdserver: user name is empty")
    assert not is_stale(7, "etcdserver: permission denied")


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("etcdserver: user name is empty", "set metadata.store.user"),
        ("etcdserver: authentication failed, invalid user ID or password", "metadata.store.password"),
        ("etcdserver: permission denied", "a role that may read and write"),
        ("etcdserver: mvcc: required revision has been compacted", ""),
    ],
)
def test_a_refusal_for_the_user_names_the_settings(text: str, setting: str) -> None:
    refused = str(RefusedError(0, text))
    assert refused.startswith(f"etcd refuses a request: {text}")
    assert setting in refused
    assert (". " in refused) is bool(setting)


def test_the_connection_that_tls_closes_is_known_by_its_address() -> None:
    assert "https://" in advice_for("the connection was closed (http://etcd:2379 can be reached)")
    assert advice_for("the connection was closed (https://etcd:2379 can be reached)") == ""
