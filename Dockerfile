# The program in an image that has nothing to write to and no user of a name:
#   docker build --build-arg TSTAR_COMMIT="$(git rev-parse --short=12 HEAD)" --tag tstar .
# Other bases have to fit: the second stage wants the C library of the first, and runs nothing while it is built.
# The digests are those of the index for all platforms; a newer one: docker buildx imagetools inspect IMAGE:TAG
ARG BUILD_IMAGE=rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1
ARG RUNTIME_IMAGE=debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251

FROM ${BUILD_IMAGE} AS build
# OpenSSL is built with it, which takes perl, as this image has.
# What `tstar --version` says; .git is not here to be asked.
ARG TSTAR_COMMIT=unknown
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin tstar

FROM ${RUNTIME_IMAGE}
ARG SOURCE=
LABEL org.opencontainers.image.title="tstar" \
      org.opencontainers.image.description="Builds trips from out-of-order telematics samples" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}"
# Authorities for TLS, from where tstar and the operating system's tools look for them.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /usr/share/doc/tstar/LICENSE
COPY --from=build /src/target/dist/tstar /usr/local/bin/tstar
# A number, so that an orchestrator can tell that it is not root.
USER 10001:10001
WORKDIR /
ENTRYPOINT ["/usr/local/bin/tstar"]
CMD ["--help"]
