"""Random histories with a crash, a loss of power or a fault at any step."""
