"""The rules of quotas."""
