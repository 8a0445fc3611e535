"""The files and the start command of the image, without a container engine but for one case."""
