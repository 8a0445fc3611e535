from __future__ import annotations

import crc32c as package
import pytest

from pybroker.records import checksum

CHECK = 0xE3069283
"""The checksum of the digits 1 to 9, which descriptions of CRC-32C name."""


def test_it_is_the_checksum_of_the_package() -> None:
    assert checksum.crc32c(b"123456789") == package.crc32c(b"123456789") == CHECK
    assert checksum.crc32c(memoryview(b"456789"), checksum.crc32c(bytearray(b"123"))) == CHECK


def test_a_package_whose_extension_has_another_name_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checksum.load() is not package.crc32c
    monkeypatch.setattr(checksum, "EXTENSION", "_other")
    assert checksum.load() is package.crc32c
