"""The audit trail: producers tag records and count them, a job compares what each tier has, by sequence numbers."""
