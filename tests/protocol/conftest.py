"""Everything runs on the native codec, where it was built, and on the generated one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from pybroker.protocol import compiler
from pybroker.protocol.schema import schema_of
from testing.scenes.messages import CLASSES

CODECS = ["native", "generated"] if find_spec("pybroker.protocol._codec_native") is not None else ["generated"]


@pytest.fixture(scope="module", autouse=True, params=CODECS)
def codec(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "IS_NATIVE", request.param == "native")
        _forget()
        yield request.param
    _forget()


def _forget() -> None:
    for cls in CLASSES:
        schema_of(cls).decoders.clear()
        schema_of(cls).encoders.clear()
