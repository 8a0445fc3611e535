"""Groups and their committed offsets: state machines whose changes are records of an internal topic."""
