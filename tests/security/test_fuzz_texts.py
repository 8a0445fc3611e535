"""The parsers of the security rooms refuse any text of a client or an operator with their own errors.

The texts are mutations of good ones. The last two draw ACLs, and compare with a second, simple reading of the same rules.
"""

from __future__ import annotations

import json
import random
import ssl
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence

import pytest

from pybroker.clock import ManualClock
from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType, word_of
from pybroker.security.acl.filters import AclFilter
from pybroker.security.principal import parse
from pybroker.security.sasl.bearer_tokens import Expected, SignedTokens, UnsecuredTokens
from pybroker.security.sasl.exchange import Exchange, RefusedError, SaslError
from pybroker.security.sasl.jaas import parse_modules
from pybroker.security.sasl.key_set import parse_key_set
from pybroker.security.sasl.oauthbearer import OauthBearer
from pybroker.security.sasl.plain import USER_PREFIX, Plain
from pybroker.security.sasl.scram import Scram
from pybroker.security.sasl.scram_credentials import SHA_256, Credential, ScramMechanism, of_salted_password
from pybroker.security.sasl.token_logins import TokenLogin
from pybroker.security.tls.certificates import authority
from pybroker.security.tls.distinguished_name import subject_of
from pybroker.security.tls.mapping_rules import MappingRules, NoRuleError
from testing.clients.tokens import Issuer, claims
from testing.wire.frames import Mutator

SEED, COUNT = 40, 3_000
OF_JWT = 1_000
NONCE, SECRET = "n" * 24, "hush"
SALTED = b"of the password"
FIRST = [
    f"{header}n={name},r=abc{more}"
    for header in ("n,,", "y,,", "n,a=user,")
    for name in ("user", "u=2Cx", "nobody")
    for more in ("", ",tokenauth=true")
]
FINAL = [
    f"c={channel},r=abc{NONCE},p={b64encode(bytes(size)).decode()}" for channel in ("biws", "eSws") for size in (0, 31, 32, 33)
]
PLAIN = ["\0user\0guess", "user\0user\0guess", "\0\0", "\0nobody\0guess", "\0usér\0guess"]
MODULES = [
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" user_a="{SECRET}" ;',
    f'a.B optional c={SECRET};\n// a comment\n/* another */ d.E sufficient f=\'g\' h="\\"\\101\\n{SECRET}";',
]
RULES = ["DEFAULT", r"RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT", r"RULE:CN=([^,]+),.*/\/$1/U , RULE:(a)|(b)/$2/"]
NAMES = ["CN=a,OU=b", "CN=\\,a,O=b", ""]


class Users:
    def credential(self, mechanism: ScramMechanism, user: str) -> Credential | None:
        return of_salted_password(mechanism, SALTED, b"salt", 4_096) if user == "user" else None

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        return None

    def secret(self) -> bytes:
        return b"of the cluster"


def mutated(work: Callable[[bytes], object], texts: Sequence[str | bytes], count: int = COUNT) -> None:
    mutator = Mutator([one.encode() if isinstance(one, str) else one for one in texts], SEED)
    for _ in range(count):
        work(mutator.frame()[4:])


def fails(exchange: Exchange, token: bytes) -> bool:
    try:
        exchange.respond(token)
    except (SaslError, RefusedError):
        assert exchange.identity is None
        return True
    return False


def test_no_token_of_plain_without_the_password_logs_in() -> None:
    plain = Plain({f"{USER_PREFIX}user": SECRET})
    mutated(lambda token: fails(plain.begin(), token) or pytest.fail(f"{token!r} logs in"), PLAIN)


def test_no_message_of_scram_without_the_password_logs_in() -> None:
    scram = Scram(SHA_256, Users(), lambda: NONCE)
    mutated(lambda token: fails(scram.begin(), token), FIRST)

    def last(token: bytes) -> None:
        exchange = scram.begin()
        assert not fails(exchange, b"n,,n=user,r=abc")
        assert fails(exchange, token), token

    mutated(last, FINAL)


def test_no_message_of_oauthbearer_logs_in_as_another_user_than_the_token_names() -> None:
    issuer, now_s = Issuer(), 1_000_000
    expected = Expected(audiences=("kafka",), issuer=None, skew_ms=30_000, scope_claim="scope", sub_claim="sub")
    mechanism = OauthBearer(SignedTokens(parse_key_set(issuer.document()), expected, ManualClock(now_s * 1_000)))
    token = issuer.token("user", lives_s=600, now_s=now_s, aud=["kafka"], scope=["a"]).encode()
    header, _, signature = token.split(b".")
    payload = claims("other", 600, now_s, {"aud": "kafka"})

    def respond(message: bytes) -> None:
        exchange = mechanism.begin()
        if not fails(exchange, message):
            assert exchange.identity is not None
            assert exchange.identity.name == "user", message

    def message(token: bytes, authorization: bytes = b"") -> bytes:
        return b"n," + authorization + b",\x01auth=Bearer " + token + b"\x01\x01"

    assert not fails(mechanism.begin(), message(token))
    mutated(respond, [message(token), message(token, b"a=user"), message(token, b"a=other")], OF_JWT)
    mutated(lambda part: respond(message(b".".join((header, segment(part), signature)))), [payload], OF_JWT)
    mutated(
        lambda part: respond(message(b".".join((segment(part), segment(payload), signature)))),
        [b'{"alg":"ES256","kid":"k"}', b'{"alg":"none"}', b'{"alg":"HS256","crit":["b64"],"b64":false}', b"[" * 2_000],
        OF_JWT,
    )


def test_claims_of_any_form_are_read_or_refused() -> None:
    """These are tokens without a signature, so that the claims are read."""
    now_s = 1_000_000
    tokens = UnsecuredTokens(sub_claim="sub", scope_claim="scope", scope=["a"], skew_ms=0, clock=ManualClock(now_s * 1_000))
    mechanism = OauthBearer(tokens)
    scopes: tuple[object, ...] = ("a", ["a", "b"], {})
    texts = [json.dumps({"sub": "user", "exp": now_s + 9, "iat": now_s, "nbf": now_s, "scope": scope}) for scope in scopes]
    header = segment(b'{"alg":"none"}')
    mutated(
        lambda part: fails(mechanism.begin(), b"n,,\x01auth=Bearer " + b".".join((header, segment(part), b"")) + b"\x01\x01"),
        [*texts, "[" * 2_000, '{"exp":1e999}', '{"a":' * 1_000],
        OF_JWT,
    )


def segment(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


def test_login_modules_are_read_or_refused_without_a_word_of_them() -> None:
    reasons: list[str] = []

    def read(text: bytes) -> None:
        try:
            parse_modules(text.decode("utf-8", "replace"))
        except ValueError as error:
            reasons.append(str(error))

    mutated(read, MODULES)
    assert reasons
    assert not [one for one in reasons if SECRET in one]


def test_principal_rules_are_read_or_refused() -> None:
    def read(text: bytes) -> None:
        try:
            rules = MappingRules(text.decode("utf-8", "replace"))
        except ValueError:
            return
        for name in NAMES:
            try:
                rules.user_name(name)
            except NoRuleError:
                continue

    mutated(read, RULES)


def test_certificates_have_a_name_or_none() -> None:
    def read(certificate: bytes) -> None:
        try:
            subject_of(certificate)
        except ValueError:
            return

    from_pem = ssl.PEM_cert_to_DER_cert(authority("An authority").certificate_pem().decode())
    mutated(read, [from_pem])


def test_a_very_long_identifier_in_a_certificate_is_refused_without_work() -> None:
    def element(tag: int, content: bytes) -> bytes:
        size = len(content).to_bytes(4)
        return bytes([tag, 0x84]) + size + content

    attribute = element(0x30, element(6, b"\xff" * 90_000 + b"\1") + element(12, b"a"))
    fields = [
        element(2, b"\1"),
        element(0x30, b""),
        element(0x30, b""),
        element(0x30, b""),
        element(0x30, element(0x31, attribute)),
    ]
    with pytest.raises(ValueError, match="identifier"):
        subject_of(element(0x30, element(0x30, b"".join(fields))))


def test_principals_are_read_or_refused() -> None:
    def read(text: bytes) -> None:
        try:
            kind, name = parse(text.decode("utf-8", "replace"))
        except ValueError:
            return
        assert kind
        assert f"{kind}:{name}" == text.decode("utf-8", "replace")

    mutated(read, ["User:alice", "User:*", "Group:a:b", ":", "User:"])


def test_filters_select_as_a_simple_reading_of_them() -> None:
    rng = random.Random(SEED)
    names, hosts, principals = ["a", "ab", "abc", "*", "", "é"], ["*", "h", "::1"], ["User:*", "User:a", "User:"]
    for _ in range(COUNT):
        pattern = ResourcePattern(rng.choice(list(ResourceType)[2:]), rng.choice(names), rng.choice(list(PatternType)[3:]))
        acl = Acl(
            pattern,
            rng.choice(principals),
            rng.choice(hosts),
            rng.choice(list(AclOperation)[2:]),
            rng.choice(list(PermissionType)[2:]),
        )
        wanted = AclFilter(
            word_of(ResourceType, rng.randrange(-1, 9)),
            rng.choice([None, *names]),
            word_of(PatternType, rng.randrange(-1, 6)),
            rng.choice([None, *principals]),
            rng.choice([None, *hosts]),
            word_of(AclOperation, rng.randrange(-1, 16)),
            word_of(PermissionType, rng.randrange(-1, 5)),
        )
        if wanted.invalid_reason is None:
            assert wanted.matches(acl) == selects(wanted, acl), (wanted, acl)


def selects(wanted: AclFilter, acl: Acl) -> bool:
    if wanted.pattern_type is PatternType.MATCH and wanted.name is not None:
        has_name = (
            wanted.name.startswith(acl.pattern.name)
            if acl.pattern.pattern_type is PatternType.PREFIXED
            else acl.pattern.name in {wanted.name, "*"}
        )
    else:
        has_name = wanted.name in {None, acl.pattern.name}
    words = [
        (wanted.resource_type, acl.pattern.resource_type),
        (wanted.operation, acl.operation),
        (wanted.permission, acl.permission),
        *([] if wanted.pattern_type is PatternType.MATCH else [(wanted.pattern_type, acl.pattern.pattern_type)]),
    ]
    texts = [(wanted.principal, acl.principal), (wanted.host, acl.host)]
    return has_name and all(one in {1, other} for one, other in words) and all(one in {None, other} for one, other in texts)
