"""Writes JSON schemas for kubeconform: of Kubernetes from a wheel, of PodMonitor from its CRD.

usage: python3 schemas.py WHEEL CRD FOLDER VERSION...

FOLDER/vVERSION gets deployment-apps-v1.json and so on, in which unknown fields are errors. Each
contains what it refers to, because kubeconform reads no second file.
"""

import json
import pathlib
import re
import sys
import zipfile

import yaml

KINDS = [
    "configmap-v1",
    "deployment-apps-v1",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
    "secret-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
]


REFERENCE = re.compile(r'"(?:/api/_definitions\.json)?#/\$defs/([^"]+)"')


def whole(text, definitions):
    """The schema with the definitions that it needs."""
    needed, rest = {}, [text]
    while rest:
        for name in REFERENCE.findall(rest.pop()):
            if name not in needed:
                needed[name] = definitions[name]
                rest.append(json.dumps(definitions[name]))
    schema = json.loads(text)
    # Its own name would be the base of references, and is nowhere.
    schema.pop("$id", None)
    schema["$defs"] = needed
    return json.dumps(schema).replace('"/api/_definitions.json#', '"#')


def closed(schema):
    """The schema with unknown fields refused, and with both types where the CRD allows either."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def pod_monitor(crd):
    spec = yaml.safe_load(pathlib.Path(crd).read_text(encoding="utf-8"))["spec"]
    version = next(entry for entry in spec["versions"] if entry["name"] == "v1")
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def main(wheel, crd, folder, *versions):
    with zipfile.ZipFile(wheel) as packed:
        for version in versions:
            below = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
            into = pathlib.Path(folder, f"v{version}")
            into.mkdir(parents=True, exist_ok=True)
            definitions = json.loads(packed.read(below + "_definitions.json"))["$defs"]
            for kind in KINDS:
                text = packed.read(f"{below}{kind}.json").decode("utf-8")
                (into / f"{kind}.json").write_text(whole(text, definitions), encoding="utf-8")
            target = into / "podmonitor-monitoring-v1.json"
            target.write_text(json.dumps(pod_monitor(crd)), encoding="utf-8")


main(*sys.argv[1:])
