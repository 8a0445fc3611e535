"""A container engine, our images, and the containers that tests start from them.

engine              Docker or podman behind one class
image               build the images, and print their sizes
stages              the Dockerfile's commands without an engine
containers          a test's containers, volumes and networks
compose             docker compose, or podman-compose
docker_api          the variables by which programs find the engine
rootless            podman as an ordinary user
podman_with_checks  podman on a machine without systemd
lock, wheels        pin what the images install, and check that it is published for other processors
packages            their bill of materials, and whether vulnerabilities of them are known
"""
