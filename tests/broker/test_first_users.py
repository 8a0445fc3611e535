"""The users that a start adds, and texts that name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.broker.first_users import add_users
from pybroker.config.setting import ConfigError
from pybroker.metadata.scram_users import described, users
from testing.scenes.api.whole import Whole


async def test_a_start_adds_users_once(tmp_path: Path) -> None:
    controller = (await Whole(tmp_path).start()).controller
    text = (
        "SCRAM-SHA-256=[name=a,password=p],SCRAM-SHA-512=[name=a,password=q=,r,iterations=8192],SCRAM-SHA-256=[name=b,password=c]"
    )
    await add_users(controller, text)
    image = controller.image
    assert (described(image, "a"), described(image, "b")) == ([(1, 4_096), (2, 8_192)], [(1, 4_096)])
    await add_users(controller, text.replace("8192", "9000"))
    assert controller.image is image, "a user that exists keeps its password"
    assert sorted(users(image)) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("admin=secret", "at character 1"),
        ("SCRAM-SHA-1=[name=a,password=secret]", "at character 1"),
        ("SCRAM-SHA-256=[name=a,password=secret];", "at character 1"),
        ("SCRAM-SHA-256=[name=a,password=b],secret", "at character 35"),
        ("SCRAM-SHA-256=[name=a,password=secret,name=b]", "at character 1"),
        (
            "SCRAM-SHA-256=[name=a,password=secret,iterations=1]",
            "Too few iterations (iterations from 4096 to 16384)",
        ),
        ("SCRAM-SHA-256=[iterations=100,name=a,password=secret]", "cannot add user 'a': Too few iterations"),
        ("SCRAM-SHA-256=[iterations=999999999,name=a,password=secret]", "cannot add user 'a': Too many iterations"),
    ],
)
async def test_a_text_that_names_no_users_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    controller = (await Whole(tmp_path).start()).controller
    with pytest.raises(ConfigError) as error:
        await add_users(controller, text)
    assert str(error.value).startswith("pybroker.scram.users=[hidden]: ")
    assert reason in str(error.value)
    assert "secret" not in str(error.value)
