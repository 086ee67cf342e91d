#!/usr/bin/env python3
"""Makes JSON schemas for kubeconform from Kubernetes' description of its API: schemas.py SWAGGER.JSON FOLDER

FOLDER gets one file for each kind below, under the name that kubeconform looks for: the kind in small letters, its
group and its version, such as deployment-apps-v1.json. A file contains all types that its kind needs, so no network is
needed later. The schemas are strict: a field that Kubernetes does not know is refused, as `kubectl --validate=strict` does.
"""

import json
import pathlib
import sys

# The kinds of the chart, and those that values may bring with extraObjects in our tests.
KINDS = {
    "ConfigMap", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PersistentVolume",
    "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PriorityClass", "Service", "ServiceAccount", "StatefulSet",
}
REFERENCE = "#/definitions/"
# Types that are written in several ways. The description calls them strings.
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
}


def strict(schema):
    """The same schema, which refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: {name: strict(part) for name, part in value.items()} if key == "properties" else strict(value)
            for key, value in schema.items() if key != "description" and not key.startswith("x-kubernetes-")}
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def references(schema):
    if isinstance(schema, dict):
        for key, part in schema.items():
            if key == "$ref":
                yield part.removeprefix(REFERENCE)
            else:
                yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


def closure(name, types):
    """All types that a type needs, itself among them."""
    found, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(types[name])
    return sorted(found)


def kinds(definitions):
    """(definition, group, version, kind) of each top-level type of KINDS."""
    for name, definition in definitions.items():
        for said in definition.get("x-kubernetes-group-version-kind", []):
            if said["kind"] in KINDS and "metadata" in definition.get("properties", {}):
                yield name, said["group"], said["version"], said["kind"]


def schema_of(name, group, version, kind, types):
    needed = closure(name, types)
    top = json.loads(json.dumps(types[name]))
    top["properties"]["apiVersion"] = {"const": f"{group}/{version}" if group else version}
    top["properties"]["kind"] = {"const": kind}
    top["required"] = sorted({*top.get("required", []), "apiVersion", "kind", "metadata"})
    return {"$schema": "http://json-schema.org/draft-07/schema#", **top,
            "definitions": {other: types[other] for other in needed}}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    definitions = json.loads(pathlib.Path(sys.argv[1]).read_text())["definitions"]
    types = {name: SCALARS.get(name) or strict(definition) for name, definition in definitions.items()}
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    made = set()
    for name, group, version, kind in kinds(definitions):
        parts = [kind, *([group.split(".")[0]] if group else []), version]
        path = folder / f"{'-'.join(parts).lower()}.json"
        path.write_text(json.dumps(schema_of(name, group, version, kind, types)))
        made.add(kind)
    if made != KINDS:
        sys.exit(f"schemas.py: the description has no {', '.join(sorted(KINDS - made))}")


if __name__ == "__main__":
    main()
