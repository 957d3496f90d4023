# The steps of deploy/release. To be sourced by it.

# describe: what the files are named by, and the time that is written into them.
describe() {
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p;/^\[dep/q' Cargo.toml | head -1)
    target=$(rustc -vV | sed -n 's/^host: //p')
    TSTAR_COMMIT=$(git rev-parse --short=12 HEAD)
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    [ -z "$(git status --porcelain)" ] || TSTAR_COMMIT=$TSTAR_COMMIT-dirty
    export TSTAR_COMMIT SOURCE_DATE_EPOCH
}

# Where cargo-deb and cargo-generate-rpm look for the program: they know no profile `dev`.
program() { echo "$stage/release/tstar"; }

has_program() {
    [ -x "$(program)" ] || fail "no program in target/package; begin with: deploy/release build"
}

make_build() {
    need_auditable
    local folder=$profile
    [ "$profile" != dev ] || folder=debug
    cargo auditable build --locked --profile "$profile" --bin tstar "${with[@]}" >&2
    mkdir -p "$stage/release"
    cp "target/$folder/tstar" "$(program)"
    # What a debugger wants is not shipped. The list of crates stays: it is a section of its own.
    strip --strip-unneeded "$(program)"
    "$(program)" --version >&2
}

make_pages() {
    has_program
    rm -rf "$stage/man" "$stage/man-gz" "$stage/completions"
    "$(program)" man --out "$stage/man/man1" >/dev/null
    mkdir -p "$stage/completions"
    "$(program)" completions bash >"$stage/completions/tstar.bash"
    "$(program)" completions zsh >"$stage/completions/_tstar"
    "$(program)" completions fish >"$stage/completions/tstar.fish"
    # cargo-deb compresses pages itself, cargo-generate-rpm does not.
    cp -r "$stage/man/man1" "$stage/man-gz"
    gzip -9n "$stage/man-gz"/*
}

make_licences() {
    need_about
    # Nothing is asked of the network: the texts are those in the crates.
    cargo about generate --locked --offline --fail "${with[@]}" \
        --config deploy/release.d/about.toml deploy/release.d/about.hbs >"$stage/THIRD-PARTY.txt"
    python3 deploy/release.d/bundled.py "$target" "$features" >>"$stage/THIRD-PARTY.txt"
    gzip -9nk --force "$stage/THIRD-PARTY.txt"
}

make_sbom() {
    need_cyclonedx
    # It writes a file into the folder of each crate of the workspace.
    local name=target-sbom
    cargo cyclonedx --format json --spec-version 1.5 --target "$target" \
        "${with[@]}" --override-filename "$name" >&2
    mv "$name.json" "$stage/sbom.cdx.json"
    rm -f {crates,tests}/*/"$name.json"
    gzip -9nk --force "$stage/sbom.cdx.json"
}

make_archive() {
    has_program
    local name=tstar-$version-$target
    local folder=$stage/archive/$name
    rm -rf "$stage/archive"
    mkdir -p "$folder"
    cp "$(program)" LICENSE README.md CHANGELOG.md "$stage/THIRD-PARTY.txt" \
        "$stage/sbom.cdx.json" deploy/tstar.service deploy/tstar.sysusers deploy/tstar.toml \
        deploy/tstar.env deploy/alerts.yml deploy/grafana.json "$folder"
    cp -r "$stage/man" "$stage/completions" "$folder"
    tar --create --directory "$stage/archive" --sort=name --owner=0 --group=0 --numeric-owner \
        --mode=u+rwX,go+rX,go-w --mtime="@$SOURCE_DATE_EPOCH" "$name" |
        gzip -9n >"$out/$name.tar.gz"
}

make_deb() {
    has_program
    need_deb
    local maintainer
    maintainer=$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' Cargo.toml)
    {
        echo "tstar ($version-1) unstable; urgency=medium"
        echo
        echo "  * Release $version. Its changes are in changelog.gz."
        echo
        echo " -- $maintainer  $(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" -R)"
    } >"$stage/changelog.Debian"
    rm -f "$out"/*.deb
    CARGO_TARGET_DIR=$stage cargo deb --locked --offline --no-build --no-strip --output "$out/" >&2
}

make_rpm() {
    has_program
    need_rpm
    rm -f "$out"/*.rpm
    cargo generate-rpm --target-dir "$stage" --auto-req builtin --output "$out/" >&2
}

make_chart() {
    need_helm
    helm package deploy/helm/tstar --version "$version" --app-version "$version" \
        --destination "$out" >&2
}

# The last stage of the Dockerfile, on files that its first stage would have made.
make_image() {
    has_program
    need_engine
    local name=tstar-$version-image-${target%%-*} context=$stage/image
    local build=(build --label "org.opencontainers.image.version=$version"
        --label "org.opencontainers.image.revision=$TSTAR_COMMIT" --tag "localhost/tstar:$version")
    rm -rf "$context"
    deploy/rootfs "$(program)" "$context/image"
    sed -n 's|^COPY --from=build |COPY |; /^FROM scratch$/,$p' Dockerfile >"$context/Dockerfile"
    # The format of OCI knows no health checks.
    [ "${engine[0]}" != podman ] || build+=(--format docker --timestamp "$SOURCE_DATE_EPOCH")
    "${engine[@]}" "${build[@]}" "$context" >&2
    rm -f "$out/$name.tar"*
    "${engine[@]}" save --output "$out/$name.tar" "localhost/tstar:$version" >&2
    gzip -9n "$out/$name.tar"
}

make_sums() {
    (cd "$out" && rm -f SHA256SUMS && sha256sum -- * >"$stage/SHA256SUMS")
    mv "$stage/SHA256SUMS" "$out/"
}
