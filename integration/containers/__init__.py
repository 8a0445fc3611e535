"""Tests of the image and of the compose file with a real engine."""
