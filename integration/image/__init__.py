"""What the files and the start command of the image do, without a container engine but for one case."""
