"""Tests of the image and the compose file with a real engine."""
