# The broker as a container image: docs/containers.md. `make image` builds it with Docker (25 or newer) or podman.
#
#   docker build --tag pybroker .                               the broker: the last stage
#   docker build --tag pybroker-clients --target clients .      stock clients, for the examples of docker-compose.yml
#   docker build --tag pybroker-spark --target spark .          the pipeline's jobs on Spark

FROM python:3.13-slim-trixie AS tools
# The published base has Python's headers and what makes environments; one whose Python is Debian's has them in packages.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends gcc libc6-dev \
      $(python -c "import ensurepip" 2>/dev/null || echo python3-venv) \
      $(test -e "$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || echo python3-dev) \
 && rm -rf /var/lib/apt/lists/*
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_PROGRESS_BAR=off
WORKDIR /build
COPY container/requirements-build.txt container/
RUN python -m venv tools \
 && tools/bin/pip install --quiet --require-hashes --only-binary :all: -r container/requirements-build.txt

# What native parts are compiled from, and nothing else: the layer that compiles them is kept while other code changes. Cython takes
# a folder for a package by its __init__.py, whatever that contains.
FROM tools AS native-sources
COPY pybroker pybroker
RUN find pybroker -type f ! -name '*.pyx' ! -name '*.pxd' ! -name '*.pxi' ! -name '*.h' ! -name '_*_python.py' \
      ! -name __init__.py -delete \
 && find pybroker -name __init__.py -exec truncate --size=0 {} + \
 && find pybroker -type d -empty -delete

FROM tools AS builder
COPY container/requirements.txt container/
RUN python -m venv --without-pip /opt/pybroker \
 && tools/bin/pip --python /opt/pybroker/bin/python install --quiet --require-hashes --no-deps --only-binary :all: \
      -r container/requirements.txt
COPY pyproject.toml setup.py ./
COPY --from=native-sources /build/pybroker pybroker
RUN touch README.md LICENSE && tools/bin/python setup.py --quiet build_ext
COPY README.md LICENSE ./
COPY pybroker pybroker
RUN find pybroker \( -name '*.p[yx][xdi]' -o -name '_*_python.py' \) -exec touch --date=2000-01-01 {} + \
 && tools/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist . \
 && tools/bin/pip --python /opt/pybroker/bin/python install --quiet --no-deps --no-index dist/*.whl
# Without a compiler, an install continues in pure Python, which an image must not do.
RUN /opt/pybroker/bin/python -I -m pybroker.native \
 && find /opt/pybroker -name '*.so' -exec strip --strip-unneeded {} +

FROM tools AS clients-builder
COPY container/requirements-clients.txt container/
RUN python -m venv --without-pip /opt/clients \
 && tools/bin/pip --python /opt/clients/bin/python install --quiet --require-hashes --only-binary :all: \
      -r container/requirements-clients.txt

FROM python:3.13-slim-trixie AS clients
COPY --from=clients-builder /opt/clients /opt/clients
COPY container/examples /examples
ENV PATH=/opt/clients/bin:$PATH
USER 1000:0

FROM tools AS spark-builder
COPY container/requirements-spark.txt container/
# PySpark is published as source only, and has nothing to compile.
RUN python -m venv --without-pip /opt/pybroker \
 && tools/bin/pip wheel --quiet --require-hashes --no-deps --no-build-isolation --wheel-dir spark \
      -r container/requirements-spark.txt \
 && tools/bin/pip --python /opt/pybroker/bin/python install --quiet --no-deps --no-index spark/*.whl \
 && rm -r spark
COPY --from=builder /build/dist dist
RUN tools/bin/pip --python /opt/pybroker/bin/python install --quiet --no-deps --no-index dist/*.whl

FROM python:3.13-slim-trixie AS spark
ENV PATH=/opt/pybroker/bin:$PATH PYBROKER_CACHE_DIR=/opt/pybroker/cache HOME=/tmp
COPY --from=spark-builder /opt/pybroker /opt/pybroker
RUN python -c "from pybroker.spark import connector, java; connector.connector_jars(); java.find_java().home()" \
 && install --directory --mode=0777 /lake
COPY container/examples /examples
WORKDIR /lake
USER 1000:0

FROM python:3.13-slim-trixie AS broker
LABEL org.opencontainers.image.title="pybroker" \
      org.opencontainers.image.description="A Kafka-compatible broker in asyncio Python" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="docs/containers.md" \
      org.opencontainers.image.base.name="python:3.13-slim-trixie"
# `nc` is what health checks and entry scripts of compose files wait with; bash is in the base. Controllers of a cluster run etcd.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends etcd-server netcat-openbsd \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
 && useradd --uid 1000 --gid 0 --home-dir /home/appuser --create-home --shell /bin/bash appuser
COPY --from=builder /opt/pybroker /opt/pybroker
COPY container/healthcheck.py /opt/pybroker/
COPY container/root/ /
# The file is named for `pybroker start` too, which a compose file may have as its command.
ENV PATH=/opt/pybroker/bin:/opt/kafka/bin:$PATH KAFKA_HOME=/opt/kafka PYBROKER_READY_FILE=/tmp/pybroker-ready
# The base comes without compiled modules, and the user of the container may not write them: a start would compile all it imports.
RUN python -c "import pybroker.cli.container_command, pybroker.container.directories, pybroker.container.lifecycle, pybroker.broker.process, \
               pybroker.cli.logging_setup, pybroker.metrics.http_server, pybroker.coordinator.service, sqlite3, encodings.ascii, \
               pybroker.quorum.member, pybroker.quorum.members, pybroker.metadata.store.etcd.store, \
               pybroker.api.gate, pybroker.broker.peers, pybroker.security.acl.authorizer, pybroker.security.tls.listener, \
               pybroker.security.sasl.client_login" \
 && pybroker tool install /opt/kafka/bin /usr/bin \
 && for name in topics configs consumer-groups console-consumer console-producer broker-api-versions; do \
      kafka-$name --help >/dev/null 2>&1 || test $? -lt 3 || exit 1; \
    done
# Writable for whatever `user:` a container gets: no other container sees this folder, and a new volume takes over its mode.
# Those are where files for other images mount their volumes. Test libraries change the scripts of the last folder.
RUN install --directory --owner=1000 --group=0 --mode=0777 /var/lib/kafka /var/lib/kafka/data /bitnami /bitnami/kafka /kafka \
      /tmp/kafka-logs /tmp/kraft-combined-logs /etc/confluent/docker \
 && chmod 0777 /etc/confluent/docker/*
USER 1000:0
# Commands that are written for Kafka's folder name bin/... and config/... in it.
WORKDIR /opt/kafka
VOLUME /var/lib/kafka/data
EXPOSE 9092
HEALTHCHECK --interval=2s --timeout=3s --start-period=120s --start-interval=250ms --retries=3 \
  CMD ["/usr/local/bin/python3", "-I", "-S", "/opt/pybroker/healthcheck.py"]
# A command and no entry point, as the images have it that this one takes the place of: `command: kafka-topics ...` works.
# A signal that comes before Python has a handler waits for it: the first process of a container would never get it.
CMD ["env", "--block-signal=TERM", "--block-signal=INT", "pybroker", "container"]
