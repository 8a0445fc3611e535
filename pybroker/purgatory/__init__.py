"""Operations that wait for an event or a time, on a hierarchical timing wheel; pure."""
