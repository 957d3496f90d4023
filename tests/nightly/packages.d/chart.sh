# Checks of the Helm chart. To be sourced by tests/nightly/packages.

# The oldest and the newest version of Kubernetes that the chart is held to.
kubernetes=(1.27.0 1.37.0)
digest=sha256:$(printf '%064d' 0)

# Names and values of a chart that is whole; each is rendered and checked.
cases=(
    "file|--set http.tokenSecret=token --set run.from=earliest"
    "keyspace|--set store.kind=keyspace,store.url=scylla://a\\,b/fleet --set http.tokenSecret=token"
    "all|--values tests/nightly/packages.d/values.yaml --set image.digest=$digest"
)
# Values that the schema or the templates have to refuse, and what the message names.
refused=(
    "no token|http.tokenSecret|"
    "keyspace without its URL|url|--set store.kind=keyspace --set http.insecure=true"
    "unknown value|replica|--set replica=3 --set http.insecure=true"
    "setting with a value of its own|topic|--set settings.topic=x --set http.insecure=true"
    "privileged port|port|--set http.port=80 --set http.insecure=true"
)

fetch_schemas() {
    local wheel crd
    [ -e "$work/wheel" ] ||
        python3 -m pip download --quiet --no-deps --dest "$work/wheel" kubernetes-validate==1.37.0
    wheel=$(echo "$work"/wheel/*.whl)
    crd=$(cd "$work" && go mod download -json \
        github.com/prometheus-operator/prometheus-operator@v0.85.0 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
    crd=$crd/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml
    python3 -c 'import yaml' 2>/dev/null || python3 -m pip install --quiet pyyaml
    python3 "$here/schemas.py" "$wheel" "$crd" "$work/schemas" "${kubernetes[@]}"
}

# conforms VERSION FILE: whether each object has a schema and keeps to it.
conforms() {
    local said
    said=$(kubeconform -strict -summary -output json \
        -schema-location "$work/schemas/v$1/{{ .ResourceKind }}{{ .KindSuffix }}.json" \
        "$2") || { echo "$said"; return 1; }
    python3 - "$2" "$said" <<'END'
import json, re, sys
found = json.loads(sys.argv[2])["summary"]
objects = len(re.findall(r"^kind: ", open(sys.argv[1]).read(), re.M))
if found != {"valid": objects, "invalid": 0, "errors": 0, "skipped": 0} or objects < 5:
    sys.exit(f"{objects} objects, but {found}")
print(f"{objects} objects valid, 0 skipped")
END
}

# Without a version, a helm that was compiled here takes that of a Kubernetes from before the chart.
render() { helm template release "$chart" --kube-version "${kubernetes[0]}" "$@"; }

check_chart() {
    local chart case name flags version broken what names found
    need_helm
    need_kubeconform
    chart=$(echo "$files"/tstar-[0-9]*.tgz)
    fetch_schemas
    for case in "${cases[@]}"; do
        name=${case%%|*} flags=${case#*|}
        # shellcheck disable=SC2086
        helm lint --strict --quiet --kube-version "${kubernetes[0]}" deploy/helm/tstar $flags
        # shellcheck disable=SC2086
        render --namespace fleet $flags >"$work/$name.yaml"
        for version in "${kubernetes[@]}"; do
            found=$(conforms "$version" "$work/$name.yaml") ||
                fail "chart: $name, Kubernetes $version: $found"
            pass "chart: $name, Kubernetes $version: $found"
        done
    done
    for what in Deployment NetworkPolicy PodDisruptionBudget PodMonitor; do
        grep -q "^kind: $what$" "$work/all.yaml" || fail "chart: no $what"
    done
    grep -q '^kind: StatefulSet$' "$work/file.yaml" || fail "chart: no StatefulSet"
    # A checker that finds nothing checks nothing.
    for broken in 's/readOnlyRootFilesystem: true/readOnlyRootFilesystem: 7/' \
        's/podMetricsEndpoints:/podMetricEndpoints:/' 's/^kind: PodMonitor/kind: PodMonitors/'; do
        sed "$broken" "$work/all.yaml" >"$work/broken.yaml"
        cmp -s "$work/all.yaml" "$work/broken.yaml" && fail "chart: nothing to break by $broken"
        if conforms "${kubernetes[0]}" "$work/broken.yaml" >/dev/null 2>&1; then
            fail "chart: $broken was not noticed"
        fi
    done
    for case in "${refused[@]}"; do
        IFS='|' read -r what names flags <<<"$case"
        # shellcheck disable=SC2086
        if found=$(render $flags 2>&1); then
            fail "chart: accepted: $what"
        fi
        grep -q "$names" <<<"$found" || fail "chart: $what: $found"
    done
    check_pod
    pass "chart: ${#refused[@]} wrong values refused, 3 broken manifests found"
}

# The settings of the pod are those of the program: it reads the file and the variables.
check_pod() {
    python3 "$here/pod.py" "$work/all.yaml" >"$work/pod.env"
    (
        set -a
        . "$work/pod.env"
        "$program" config check --config "$work/pod.toml"
    ) || fail "chart: the program refuses the settings of the pod"
}
