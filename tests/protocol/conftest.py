"""Everything runs on both twins of the codec, if the native one was built and is wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker import native
from pybroker.protocol import _codec_python, codec
from pybroker.protocol.schema import schema_of
from testing.scenes.messages import CLASSES

NATIVE = native.extension("pybroker.protocol._codec_native")
CODECS = [pytest.param(_codec_python, id="python"), *([] if NATIVE is None else [pytest.param(NATIVE, id="native")])]


@pytest.fixture(scope="module", autouse=True, params=CODECS)
def twin(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _codec_python.__all__:
            patch.setattr(codec, name, getattr(request.param, name))
        _forget()
        yield
    _forget()


def _forget() -> None:
    for cls in CLASSES:
        schema_of(cls).decoders.clear()
        schema_of(cls).encoders.clear()
