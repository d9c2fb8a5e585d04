"""Kubernetes manifests of the pages, held against the binary and its image: each container of Once is started as Kubernetes would,
with its configuration, its arguments and its secrets; probes, users and times fit it.
"""
import re
import sys

import yaml

import support

sys.path.append(str(support.ROOT / "tests" / "packaging"))

import image  # noqa: E402

SECONDS = {"s": 1, "m": 60, "h": 3600}


def check(text, secrets=None):
    """The containers of Once. `secrets` are those that are in no file: {name: {key: value}}."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        for name in ("apiVersion", "kind", "metadata"):
            expect(name in document, f"{document.get('kind')} has no {name}")
        expect("name" in document["metadata"], "metadata has no name")
    files = {("Secret", name): values for name, values in (secrets or {}).items()}
    for document in documents:
        if document["kind"] in ("ConfigMap", "Secret"):
            files[document["kind"], document["metadata"]["name"]] = document.get("data") or document["stringData"]
    return [check_pods(document, files) for document in documents if document["kind"] in ("Deployment", "StatefulSet")]


def expect(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


def check_pods(document, files):
    template = document["spec"]["template"]
    expect(document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items(),
           "the selector does not match the pods")
    pods = template["spec"]
    once = next((container for container in pods["containers"] if container["name"] == "once"), None)
    expect(once, f"{document['metadata']['name']} has no container once")
    expect(once["image"] == image.name(), f"the image is built as {image.name()}, and used as {once['image']}")
    mounted = files_of(document, once, files)
    expect("/etc/once" in mounted, "nothing is mounted at /etc/once")
    container = image.Container(support.ONCE, once["args"], mounted, environment_of(once, files))
    container.check()
    with container.serving():
        pass
    settings = yaml.safe_load(mounted["/etc/once"]["once.yaml"])
    check_user(pods)
    check_probes(once, settings)
    check_writes(document, once, settings)
    check_end(pods, once, settings)
    return container


def files_of(document, container, files):
    """What the container finds where: {folder: {name: text}}; a volume that it may write to is empty."""
    found = {}
    for mount in container["volumeMounts"]:
        volume = volume_at(document, container, mount["mountPath"])
        secret, settings = volume.get("secret"), volume.get("configMap")
        source = ("Secret", secret["secretName"]) if secret else ("ConfigMap", settings["name"]) if settings else None
        expect(source in files or source is None, f"{source} is mounted at {mount['mountPath']} and is not here")
        values = files.get(source, {})
        items = (secret or {}).get("items", [{"path": key, "key": key} for key in values])
        found[mount["mountPath"]] = {item["path"]: values[item["key"]] for item in items}
    return found


def environment_of(container, files):
    found = {}
    for variable in container.get("env", []):
        reference = variable["valueFrom"]["secretKeyRef"]
        values = files.get(("Secret", reference["name"]), {})
        expect(reference["key"] in values, f"{variable['name']} is not in {reference['name']}")
        found[variable["name"]] = values[reference["key"]]
    return found


def check_user(pods):
    """The user of the image, and files of volumes and secrets are readable by its group."""
    context = pods.get("securityContext", {})
    expect(context.get("runAsNonRoot") and context.get("runAsUser") == context.get("fsGroup") == image.user(),
           f"the user of the image is {image.user()}, the pod has {context}")


def volume_at(document, container, path):
    volumes = {volume["name"]: volume for volume in document["spec"]["template"]["spec"].get("volumes", [])}
    volumes |= {claim["metadata"]["name"]: claim for claim in document["spec"].get("volumeClaimTemplates", [])}
    for mount in container["volumeMounts"]:
        expect(mount["name"] in volumes, f"no volume {mount['name']}")
    found = [volumes[mount["name"]] for mount in container["volumeMounts"] if mount["mountPath"] == path]
    expect(found, f"nothing is mounted at {path}")
    return found[0]


def check_probes(once, settings):
    ports = {port.get("name", port["containerPort"]): port["containerPort"] for port in once["ports"]}
    listens = port_of(settings["listen"])
    expect(listens in ports.values(), f"Once listens on {listens}, the ports are {ports}")
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        if probe == "startupProbe" and probe not in once:
            continue
        if settings["admin"].startswith("127."):  # the kubelet cannot ask there
            expect(once[probe]["tcpSocket"]["port"] == listens, f"{probe} does not try {listens}")
        else:
            asked = once[probe]["httpGet"]
            port = ports.get(asked["port"], asked["port"])
            expect((asked["path"], port) == (path, port_of(settings["admin"])), f"{probe} asks {asked}")


def check_writes(document, once, settings):
    """A journal is on a volume that stays, of the one pod that there is."""
    if settings.get("store", "journal:").startswith("journal:"):
        volume = volume_at(document, once, settings.get("data_dir", image.DATA))
        expect(document["kind"] == "StatefulSet" and document["spec"]["replicas"] == 1, "a journal has one owner")
        expect("accessModes" in volume["spec"], "the journal is not on a volume that stays")


def check_end(pods, once, settings):
    """Once has its time to drain, and whatever it is in front of in the same pod is there for as long."""
    waits = slept(once)
    drained = waits + seconds(settings["timeouts"]["drain"])
    expect(pods["terminationGracePeriodSeconds"] > drained, "Kubernetes kills before requests at work had their time")
    for other in pods["containers"]:
        if other is not once:
            expect(slept(other) > drained, f"{other['name']} ends before Once")


def slept(container):
    """Seconds between the end of a pod and SIGTERM: by Kubernetes itself, or by a command."""
    before = container["lifecycle"]["preStop"]
    return before["sleep"]["seconds"] if "sleep" in before else int(before["exec"]["command"][1])


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)([smh])", duration).groups()
    return int(number) * SECONDS[unit]
