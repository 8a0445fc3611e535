"""Record batches of every magic, their compression, validation and conversion; pure."""
