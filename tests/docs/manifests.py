"""Kubernetes manifests of the pages, held against the binary: the configuration in them, their arguments, probes and times."""
import pathlib
import re
import subprocess
import tempfile

import yaml

import support

SECONDS = {"s": 1, "m": 60, "h": 3600}


def check(text):
    documents = [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        for name in ("apiVersion", "kind", "metadata"):
            expect(name in document, f"{document.get('kind')} has no {name}")
        expect("name" in document["metadata"], "metadata has no name")
    files = {}
    for document in documents:
        if document["kind"] in ("ConfigMap", "Secret"):
            files[document["metadata"]["name"]] = document.get("data") or document["stringData"]
    for name, folder in files.items():
        check_settings(name, folder)
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            check_pods(document, files)


def expect(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


def check_settings(name, files):
    """The settings among these files, which all are where the pod has them."""
    with tempfile.TemporaryDirectory() as folder:
        for file, body in files.items():
            path = pathlib.Path(folder) / file
            path.write_text(body.replace("/etc/once/", f"{folder}/"))
            path.chmod(0o600)
        done = subprocess.run([support.ONCE, "check", "--config", f"{folder}/once.yaml"], capture_output=True, text=True)
        expect(done.returncode == 0, f"{name}: {done.stderr}")


def check_pods(document, files):
    template = document["spec"]["template"]
    expect(document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items(),
           "the selector does not match the pods")
    pods = template["spec"]
    once = next((container for container in pods["containers"] if container["name"] == "once"), None)
    expect(once, f"{document['metadata']['name']} has no container once")
    expect(once["args"] == ["serve", "--config", "/etc/once/once.yaml"], f"the arguments of Once are {once['args']}")
    mounted = volume_at(document, once, "/etc/once")
    source = mounted.get("secret", {}).get("secretName") or mounted.get("configMap", {}).get("name")
    expect(source in files, f"{source} is mounted at /etc/once and is not here")
    settings = yaml.safe_load(files[source]["once.yaml"])
    check_probes(once, settings)
    check_writes(document, once, settings)
    check_end(pods, once, settings)


def volume_at(document, container, path):
    volumes = {volume["name"]: volume for volume in document["spec"]["template"]["spec"].get("volumes", [])}
    volumes |= {claim["metadata"]["name"]: claim for claim in document["spec"].get("volumeClaimTemplates", [])}
    for mount in container["volumeMounts"]:
        expect(mount["name"] in volumes, f"no volume {mount['name']}")
    found = [volumes[mount["name"]] for mount in container["volumeMounts"] if mount["mountPath"] == path]
    expect(found, f"nothing is mounted at {path}")
    return found[0]


def check_probes(once, settings):
    ports = [port["containerPort"] for port in once["ports"]]
    listens = port_of(settings["listen"])
    expect(listens in ports, f"Once listens on {listens}, the ports are {ports}")
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        if settings["admin"].startswith("127."):  # the kubelet cannot ask there
            expect(once[probe]["tcpSocket"]["port"] == listens, f"{probe} does not try {listens}")
        else:
            asked = once[probe]["httpGet"]
            expect((asked["path"], asked["port"]) == (path, port_of(settings["admin"])), f"{probe} asks {asked}")


def check_writes(document, once, settings):
    """A journal is on a volume that stays, of the one pod that there is."""
    if settings.get("store", "journal:").startswith("journal:"):
        volume = volume_at(document, once, settings["data_dir"])
        expect(document["kind"] == "StatefulSet" and document["spec"]["replicas"] == 1, "a journal has one owner")
        expect("accessModes" in volume["spec"], "the journal is not on a volume that stays")


def check_end(pods, once, settings):
    """Once has its time to drain, and whatever it is in front of in the same pod is there for as long."""
    waits = once["lifecycle"]["preStop"]["sleep"]["seconds"]
    drained = waits + seconds(settings["timeouts"]["drain"])
    expect(pods["terminationGracePeriodSeconds"] > drained, "Kubernetes kills before requests at work had their time")
    for other in pods["containers"]:
        if other is not once:
            expect(other["lifecycle"]["preStop"]["sleep"]["seconds"] > drained, f"{other['name']} ends before Once")


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)([smh])", duration).groups()
    return int(number) * SECONDS[unit]
