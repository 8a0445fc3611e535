"""Topics to Parquet: every record once, every field kept, and a manifest that says what is there."""
