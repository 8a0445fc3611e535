"""Shows transactions, and ends one that hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin import groups, returned
from pybroker.admin.route import Route
from pybroker.admin.shapes import of_transaction

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject


async def list_transactions(subject: Subject, _call: Call) -> Json:
    """Return all transactional ids with what is known of their last transactions."""
    found = await subject.carry_out(groups.transactions())
    return {"transactions": [of_transaction(one) for one in found.values()]}


async def abort_transaction(subject: Subject, call: Call) -> Json:
    """Abort the open transaction of a transactional id, and fence its producer."""
    return of_transaction(await subject.carry_out(groups.abort(call.names["transactional_id"])))


ROUTES: Final = (
    Route(
        "GET", "/v1/transactions", list_transactions, "All transactional ids with their last transactions.", returned.TRANSACTIONS
    ),
    Route(
        "POST",
        "/v1/transactions/{transactional_id}/abort",
        abort_transaction,
        "Abort an open transaction, and fence its producer, as a new producer with this id would.",
        returned.TRANSACTION,
        errors={404: "There is no such transactional id."},
    ),
)
