"""The table of broker properties, part seven: delegation tokens.

Source: DelegationTokenManagerConfigs; KIP-48.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Kind, Setting, at_least

TOKEN_SETTINGS: Final = (
    Setting(
        "delegation.token.secret.key", Kind.PASSWORD, None,
        "The secret from which the HMACs of delegation tokens are made, the same on every broker. Without it there are no tokens."
        " With another one, the tokens from before are not valid any more.",
    ),
    Setting(
        "delegation.token.master.key", Kind.PASSWORD, None,
        "The older name of delegation.token.secret.key, which has precedence.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms", Kind.LONG, 7 * 24 * 3_600_000,
        "The longest life of a token, however often it is renewed, in ms.", at_least(1),
    ),
    Setting(
        "delegation.token.expiry.time.ms", Kind.LONG, 24 * 3_600_000,
        "The time after which a token expires if it is not renewed, in ms.", at_least(1),
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms", Kind.LONG, 3_600_000,
        "The time between two removals of expired tokens, in ms. A token that has expired cannot be used before that, either.",
        at_least(1),
    ),
)  # fmt: skip
