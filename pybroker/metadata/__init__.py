"""The immutable image of the cluster, the store that keeps it, and the controller that changes it."""
