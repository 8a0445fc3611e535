"""The test kit with processes and stock clients."""
