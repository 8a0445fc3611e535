"""What is in the topics of a cluster: numbers of each partition, and a page with pictures."""
