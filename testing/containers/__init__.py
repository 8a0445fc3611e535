"""A container engine, our images, and what runs of them."""
