"""Prints the variables of the pod in a rendered chart, and writes its settings file next to it.

usage: python3 pod.py RENDERED.yaml

Fails unless the pod is as hardened as docs/install.md says, and has time to store what it read.
"""

import pathlib
import shlex
import sys

import yaml


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r}, not {expected!r}")


def main(path):
    objects = list(yaml.safe_load_all(pathlib.Path(path).read_text(encoding="utf-8")))
    kinds = {entry["kind"]: entry for entry in objects if entry}
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    expect("user", pod["securityContext"]["runAsNonRoot"], True)
    expect("root", container["securityContext"]["readOnlyRootFilesystem"], True)
    expect("escalation", container["securityContext"]["allowPrivilegeEscalation"], False)
    expect("capabilities", container["securityContext"]["capabilities"], {"drop": ["ALL"]})
    expect("liveness", container["livenessProbe"]["httpGet"]["path"], "/livez")
    expect("scheme", container["livenessProbe"]["httpGet"]["scheme"], "HTTPS")
    expect("certificate", variables["TSTAR_TLS_CERT"], "/run/secrets/tstar-tls/tls.crt")
    expect("readiness", container["readinessProbe"]["httpGet"]["path"], "/readyz")
    expect("token", pod["automountServiceAccountToken"], False)
    drain = int(variables["TSTAR_DRAIN_TIMEOUT"].removesuffix("s"))
    if pod["terminationGracePeriodSeconds"] <= drain:
        sys.exit("the pod is killed before it has stored what it read")
    member = next(entry for entry in container["env"] if entry["name"] == "TSTAR_INSTANCE_ID")
    expect("member", member["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name")
    settings = kinds["ConfigMap"]["data"]["tstar.toml"]
    pathlib.Path(path).with_name("pod.toml").write_text(settings, encoding="utf-8")
    for name, value in variables.items():
        if value is not None and name.startswith("TSTAR_"):
            print(f"{name}={shlex.quote(value)}")


main(*sys.argv[1:])
