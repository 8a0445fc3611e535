"""The wire protocol: a declared, compiled codec; pure."""
