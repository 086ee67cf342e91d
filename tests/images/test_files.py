"""The contents of the images, and how they are made."""

import gzip
import json
import pathlib
import re
import stat
import subprocess

import pytest
from containers import IMAGES, USER, VERSION

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINERFILE = (ROOT / "deploy/images/Containerfile").read_text()
COMPOSE = ROOT / "deploy/images/compose.yaml"
# Bytes of all files of an image.
BUDGETS = {"folio-manager": 60e6, "folio-worker": 120e6, "folio-gateway": 60e6, "folioctl": 60e6}


def targets():
    """The instructions of each stage that is an image."""
    stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.M)[1:]
    named = {stage.split("\n", 1)[0].split(" AS ")[1]: stage for stage in stages}
    return {name: stage for name, stage in named.items() if name.startswith("folio")}


def test_every_image_has_a_target():
    assert set(targets()) == {*IMAGES, "folio-worker-cuda"}


@pytest.mark.parametrize("name, stage", targets().items())
def test_a_target_is_what_a_strict_cluster_takes(name, stage):
    assert stage.startswith("${RUN_BASE} "), "its base is an argument"
    assert re.search(r"^USER 10001:10001$", stage, re.M)
    assert re.search(r'^ENTRYPOINT \["/usr/bin/folio', stage, re.M), "no shell is needed to start it"
    assert not re.search(r"^(RUN|CMD|ADD|VOLUME)", stage, re.M), "a base without a shell can run nothing"
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in stage


def services():
    """The lines of each service of the Compose file, which needs no parser of YAML for what is asked here."""
    text = COMPOSE.read_text().split("\nservices:\n")[1].split("\nvolumes:\n")[0]
    parts = re.split(r"^  (\w+):\n", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_compose_has_a_service_for_each_image():
    assert list(services()) == ["manager", "worker", "gateway", "prometheus", "folioctl"]


@pytest.mark.parametrize("name, lines", services().items())
def test_a_service_of_compose_has_no_privileges(name, lines):
    for line in ("read_only: true", "cap_drop: [ALL]", 'security_opt: ["no-new-privileges:true"]'):
        assert f"\n    {line}\n" in lines
    assert not re.search(r"^    (privileged|pid|ipc|cap_add|user|devices):", lines, re.M)
    assert name == "prometheus" or re.search(r"target: ([\w-]+)}", lines)[1] in targets()


def test_compose_mounts_files_that_exist():
    mounted = re.findall(r'"\./([\w.]+):', services()["prometheus"])
    assert mounted == ["prometheus.yaml", "alerts.yaml"] and all((COMPOSE.parent / name).is_file() for name in mounted)


def test_prometheus_scrapes_the_ports_of_compose():
    asked = dict(re.findall(r'targets: \["(\w+):(\d+)"\]', (COMPOSE.parent / "prometheus.yaml").read_text()))
    served = {name: match[1] for name, lines in services().items() if (match := re.search(r"--metrics_listen=[\d.]+:(\d+)", lines))}
    assert asked == served and set(asked) == {"manager", "worker", "gateway"}
    for name in (*asked, "prometheus"):
        assert re.search(r"^    networks: \[(default, )?metrics\]$", services()[name], re.M), f"{name} is not on the network"


@pytest.mark.parametrize("name", ["manager", "worker", "gateway"])
def test_flags_of_compose_are_flags_of_the_programs(name):
    files = [path for room in (name, "grpc", "runtime", "metrics") for path in sorted((ROOT / "services" / room).glob("*.cc"))]
    source = "\n".join(path.read_text() for path in files)
    given = re.findall(r'"--(\w+)[="]', services()[name])
    assert given
    for flag in given:
        assert re.search(rf"ABSL_FLAG\(\s*[^,]+,\s*{flag},", source), flag


@pytest.mark.parametrize("name", IMAGES)
class TestBuilt:
    @pytest.fixture
    def image(self, images, name):
        return images[name]

    def test_fits_its_budget(self, image, name):
        assert image.size() < BUDGETS[name], f"{name} has {image.size() / 1e6:.1f} MB"

    def test_says_what_it_is(self, image, name):
        labels, version = image.config["Labels"], re.search(r"folio VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
        assert image.config["User"] == "10001:10001" and image.config["Entrypoint"] == [f"/usr/bin/{name}"]
        assert labels["org.opencontainers.image.version"] == VERSION == version[1]
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["org.opencontainers.image.revision"])

    def test_has_one_program_and_no_leftovers(self, image, name):
        programs = {path.name for path in (image.root / "usr/bin").iterdir()}
        assert programs == {name}
        files = image.files()
        executable = {
            path.name for path in files
            if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111 and ".so" not in path.name
        }  # fmt: skip
        assert executable == programs, "a shell or another program"
        assert not [path for path in files if "apt" in path.parts or "cache" in path.parts], "caches of packages"
        assert not [path for path in files if path.suffix in {".a", ".h", ".py"}], "parts that only a build needs"

    def test_has_a_bill_of_all_that_is_in_it(self, image, name):
        documents = image.root / "usr/share/doc/folio"
        bill = json.loads((documents / "sbom.json").read_text())
        assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == name
        used = {}
        for part in bill["components"]:
            used.setdefault(part["properties"][0]["value"], set()).add(part["name"])
        packages = {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
        assert used["shared library"] == packages - {"base-files"}
        texts = gzip.decompress((documents / "third-party-licences.gz").read_bytes()).decode()
        titles = set(re.findall(r"^(\S+) \S+: \S+\n=+$", texts, re.M))
        assert len(titles) > 2 and titles <= used["compiled in"]
        # Rust's standard library comes without a text, and its licences are among the others'.
        assert ("tokenizers" in titles) == (name == "folio-worker") and used["compiled in"] - titles <= {"rust-std"}

    def test_its_user_can_change_the_socket_directory_alone(self, image):
        for path in [image.root, *image.files()]:
            status = path.lstat()
            if path == image.root / "run/folio":
                assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (USER, USER, 0o770)
                continue
            assert (status.st_uid, status.st_gid) == (0, 0), path
            assert path.is_symlink() or not status.st_mode & (stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID), path

    def test_its_libraries_are_all_there_and_have_their_licences(self, image, name):
        """The loader of the image itself finds every library in the image."""
        done = subprocess.run(
            ["chroot", image.root, "/lib64/ld-linux-x86-64.so.2", "--list", f"/usr/bin/{name}"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        needed = [line.split()[0] for line in done.stdout.splitlines() if "vdso" not in line]
        assert len(needed) > 10 and "not found" not in done.stdout
        present = {path.name for path in (image.root / "usr/lib").rglob("*.so*")}
        assert present == {library for library in needed if "/" not in library}, "a library that nothing needs"
        packages = {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
        assert {"libc6", "libgrpc29", "libprotobuf32"} <= packages or {"libc6"} <= packages != {"libc6"}
        for package in packages:
            assert (image.root / "usr/share/doc" / package / "copyright").stat().st_size > 100
