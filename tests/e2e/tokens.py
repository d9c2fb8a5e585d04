"""Key pairs and signed tokens, made with Python's hmac and the openssl command."""
import base64
import hashlib
import hmac
import json
import subprocess
import time


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments, stdin=None):
    return subprocess.run(["openssl", *arguments], input=stdin, check=True, capture_output=True).stdout


def raw_numbers(der):
    """r and s of an ECDSA signature side by side, as tokens have them."""
    numbers, at = b"", 2
    for _ in range(2):
        size = der[at + 1]
        numbers += der[at + 2:at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + size
    return numbers


class Secret:
    algorithm = "HS256"

    def __init__(self, folder, name="secret"):
        self.secret = hashlib.sha256(str(folder).encode()).hexdigest()
        self.path = folder / name
        self.path.write_text(self.secret + "\n")
        self.path.chmod(0o600)

    def sign(self, message):
        return hmac.new(self.secret.encode(), message, hashlib.sha256).digest()


class Pair:
    """A key pair of one kind; the public one is the file `path`."""

    KINDS = {"RS256": ("rsa", "-pkeyopt", "rsa_keygen_bits:2048"),
             "ES256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
             "EdDSA": ("ed25519",)}

    def __init__(self, folder, algorithm, name=None):
        self.algorithm = algorithm
        self.folder = folder
        self.path = folder / f"{name or algorithm}.pub"
        self.private = folder / f"{name or algorithm}.pem"
        openssl("genpkey", "-algorithm", *self.KINDS[algorithm], "-out", str(self.private))
        openssl("pkey", "-in", str(self.private), "-pubout", "-out", str(self.path))

    def sign(self, message):
        if self.algorithm == "EdDSA":
            file = self.folder / "message"
            file.write_bytes(message)
            return openssl("pkeyutl", "-sign", "-inkey", str(self.private), "-rawin", "-in", str(file))
        signature = openssl("dgst", "-sha256", "-sign", str(self.private), stdin=message)
        return raw_numbers(signature) if self.algorithm == "ES256" else signature

    def jwk(self, **members):
        """Of a P-256 or Ed25519 key: the end of its DER is the key itself."""
        der = openssl("pkey", "-pubin", "-in", str(self.path), "-outform", "DER")
        if self.algorithm == "EdDSA":
            return {"kty": "OKP", "crv": "Ed25519", "x": encode(der[-32:]), **members}
        return {"kty": "EC", "crv": "P-256", "x": encode(der[-64:-32]), "y": encode(der[-32:]), **members}


def token(key, header=None, lasts=600, **claims):
    header = {"alg": key.algorithm, "typ": "JWT", **(header or {})}
    payload = {"exp": int(time.time()) + lasts, **claims}
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, payload))
    return f"{text}.{encode(key.sign(text.encode()))}"


def bearer(*arguments, **named):
    return ("Authorization", "Bearer " + token(*arguments, **named))
