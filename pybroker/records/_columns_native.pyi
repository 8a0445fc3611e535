"""Records into the buffers of Arrow columns, without an object for each; `_columns_python` has the same class."""

_Buffer = bytes | bytearray | memoryview
_Binary = tuple[_Buffer | None, _Buffer, _Buffer, int]

class ColumnBuilder:
    """Fills the columns of `wanted` (the flags in `columns`), and nothing else is decoded.

    A record's fields are read and checked up to the last wanted one. Only rows with first_offset <= offset < end_offset are
    taken. All methods raise what `record_fault` makes; after that the builder is of no use.

    Attributes:
        rows: since the last `take`.
        data_bytes: of keys, values and headers since then. A column holds 2 GB at most.
    """

    rows: int
    data_bytes: int

    def __init__(self, wanted: int) -> None: ...
    def append_section(
        self,
        section: _Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        is_log_append_time: bool,
        log_append_time: int,
        first_offset: int,
        end_offset: int,
    ) -> int:
        """The uncompressed records of a magic 2 batch. Returns the rows added."""

    def append_messages(
        self,
        messages: _Buffer,
        position: int,
        wrapper_offset: int,
        is_log_append_time: bool,
        log_append_time: int,
        first_offset: int,
        end_offset: int,
    ) -> tuple[int, int]:
        """Uncompressed messages of magic 0 or 1 from `position` on, their checksums tried.

        With `wrapper_offset` >= 0 they are the inside of a wrapper of that offset; pass 0 if those inside are real (magic 0).
        Else they are a stretch of a log, which ends before the first message of another magic, codec or timestamp type. A
        partial message at the end is left out. With `is_log_append_time` every timestamp is `log_append_time`. Returns where it
        ended and the rows added.
        """

    def append_run(self, count: int, first_offset: int, timestamp: int) -> None:
        """Rows that follow from a batch's header alone: consecutive offsets and one timestamp. Not for keys, values, headers."""

    def take(
        self,
    ) -> tuple[
        int,
        _Buffer | None,
        tuple[_Buffer, int, int] | None,
        _Binary | None,
        _Binary | None,
        tuple[_Buffer, _Binary, _Binary] | None,
    ]:
        """What was filled, and begin anew: rows; offsets (int64); timestamps (int64, ms), the least and the greatest; keys;
        values; headers. What is not wanted is None.

        Of byte strings: validity bitmap (None if there is no null), ends (int32, one more than rows, from 0), data, nulls. Of
        headers: ends of each row's headers (int32, as before), their keys, their values. All buffers are the caller's.
        """
