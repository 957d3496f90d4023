# The tools of deploy/release and of tests/nightly/packages, each of one version, in target/tools.
# To be sourced, with $root set.
tools=$root/target/tools
export PATH=$tools/bin:$PATH

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# cargo_tool NAME VERSION [ARGUMENT...]: compiles a tool from crates.io where it is missing.
# Not optimised unless $optimised is set: it builds in half the time, and most run for seconds.
cargo_tool() {
    local name=$1 version=$2
    shift 2
    # .crates.toml is cargo's own list of what it has installed here.
    if [ -x "$tools/bin/$name" ] && grep -q "^\"$name $version " "$tools/.crates.toml"; then
        return
    fi
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=${optimised:-0} CARGO_INCREMENTAL=0 \
        CARGO_TARGET_DIR=$tools/build cargo install "$name" --version "$version" --locked --debug \
        --root "$tools" "$@" >&2
    rm -rf "$tools/build"
}

# go_tool NAME PACKAGE VERSION: the same from the module proxy, whose checksum database Go asks.
go_tool() {
    local name=$1 package=$2 version=$3
    command -v go >/dev/null || fail "no go found, which builds $name; install Go 1.24 or newer"
    if [ -x "$tools/bin/$name" ] &&
        go version -m "$tools/bin/$name" | grep -q "^[[:space:]]mod[[:space:]].*[[:space:]]$version"; then
        return
    fi
    GOBIN=$tools/bin go install "$package@$version" >&2
}

need_auditable() { cargo_tool cargo-auditable 0.7.7; }
# It compares each file of each crate with all licences: more than ten minutes if it is not optimised.
need_about() { optimised=2 cargo_tool cargo-about 0.9.3 --features cli; }
need_cyclonedx() { cargo_tool cargo-cyclonedx 0.5.9; }
need_deb() { cargo_tool cargo-deb 3.8.0; }
need_rpm() { cargo_tool cargo-generate-rpm 0.21.1; }
need_helm() { go_tool helm helm.sh/helm/v3/cmd/helm v3.22.0; }
need_kubeconform() { go_tool kubeconform github.com/yannh/kubeconform/cmd/kubeconform v0.8.0; }

# need_engine: sets $engine, the command that builds images. Where there is none, and as root on Debian, it is the
# podman of the tests, with its storage in target/servers.
need_engine() {
    local folder=$root/target/servers/engine
    if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
        engine=(docker)
    elif [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        tests/servers/engine.sh install "$folder" >&2
        export CONTAINERS_CONF=$folder/containers.conf
        engine=(podman --root "$folder/storage" --runroot "$folder/run")
    elif command -v podman >/dev/null; then
        engine=(podman)
    else
        fail "no docker or podman found, which builds the image"
    fi
}
