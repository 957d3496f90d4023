# tstar, the C library, and certificates of authorities; no shell, not root, one folder to write to:
#   docker build --build-arg TSTAR_COMMIT="$(git rev-parse --short=12 HEAD)" --tag tstar .
#   docker run --read-only --volume tstar:/var/lib/tstar --env TSTAR_BROKERS=... tstar run --from earliest
# Settings as variables, not as flags: the health check reads them, too.
# The digest is that of the index for all platforms; a newer one: docker buildx imagetools inspect IMAGE:TAG
ARG BUILD_IMAGE=rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1

FROM ${BUILD_IMAGE} AS build
# OpenSSL is built with it, which takes perl, as this image has.
# What `tstar --version` says; .git is not here to be asked.
ARG TSTAR_COMMIT=unknown
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --features tls-vendored --bin tstar && deploy/rootfs target/dist/tstar /image

# deploy/release makes an image from here on, of the program that it has built.
FROM scratch
ARG SOURCE=
LABEL org.opencontainers.image.title="tstar" \
      org.opencontainers.image.description="Builds trips from out-of-order telematics samples" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /image/root /
COPY --from=build --chown=10001:10001 /image/data /var/lib/tstar
ENV PATH=/usr/local/bin
# A number, so that an orchestrator can tell that it is not root.
USER 10001:10001
WORKDIR /var/lib/tstar
# Healthy if the store answers and the daemon has started to read the topic. There is no HTTP client for /readyz.
HEALTHCHECK --interval=10s --timeout=10s --retries=6 --start-period=30s CMD ["/usr/local/bin/tstar", "epoch", "show"]
ENTRYPOINT ["/usr/local/bin/tstar"]
CMD ["--help"]
