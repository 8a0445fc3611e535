"""`dataclass` as in the standard library, but its methods are made when the first object is.

Python makes the methods of a dataclass from source text, which takes about a millisecond for each class. A start imports 86 of
them and makes objects of a third. So the decorator here only gives a class its slots, and a constructor that makes the methods at
its first call, and then replaces itself.

Until then the class is no dataclass for `dataclasses.fields` and its kin; its objects always are.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

T = TypeVar("T")

_NOT_FIELDS: Final = ("ClassVar", "KW_ONLY")
UNMADE: Final[dict[type, Callable[[], type]]] = {}
_making: Final = threading.RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  for type checkers, and for readers, it is that one
else:

    def dataclass(*, slots: bool, **options: bool) -> Callable[[type[T]], type[T]]:
        """Return the decorator for these options. All our dataclasses have slots."""
        assert slots

        def decorate(declared: type[T]) -> type[T]:
            declared_values = vars(declared)
            own = [name for name, hint in declared.__annotations__.items() if not hint.startswith(_NOT_FIELDS)]
            values = {name: value for name, value in declared_values.items() if name not in (*own, "__dict__", "__weakref__")}
            inherited = {name for base in declared.__mro__[1:] for name in getattr(base, "__slots__", ())}
            values["__slots__"] = tuple(name for name in own if name not in inherited)

            def construct(self: Any, *arguments: Any, **values: Any) -> None:
                make(cls)
                cls.__init__(self, *arguments, **values)

            values["__init__"] = construct
            cls = type(declared)(declared.__name__, declared.__bases__, values)
            cls.__qualname__ = declared.__qualname__
            UNMADE[cls] = lambda: dataclasses.dataclass(slots=True, **options)(declared)
            return cls

        return decorate


def make(cls: type) -> None:
    """Make the methods of the class, if they are not made yet, and those of its bases first."""
    with _making:
        for one in reversed(cls.__mro__):
            if (as_usual := UNMADE.get(one)) is None:
                continue
            made = vars(as_usual())
            for name in made.keys() - made["__slots__"] - {"__slots__", "__init__", "__dict__", "__weakref__"}:
                setattr(one, name, made[name])
            one.__init__ = made["__init__"]  # type: ignore[misc]  # the last, because other threads look at it
            del UNMADE[one]
