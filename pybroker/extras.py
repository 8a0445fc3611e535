"""How a person installs what an extra of the package brings.

pybroker is on no package index, and another project has its name there. So the command is one for a clone.
"""


def command(extra: str) -> str:
    """Return the command, and where it runs, for the end of an error."""
    return f"pip install '.[{extra}]' in a clone of pybroker"
