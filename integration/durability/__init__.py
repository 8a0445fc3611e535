"""Acknowledged records are there after kills and with disks that are full or lost. `soak.py` is the soak of everything."""
