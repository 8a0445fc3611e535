"""One declaration file per API; nothing else."""
