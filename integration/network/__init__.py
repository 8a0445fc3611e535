"""The loop and its connections: requests, limits, memory, fairness, bad frames, long turns."""
