"""Generates the stubs of proto/ into the package while it is built; a source distribution takes proto/ along."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent


def proto_folder():
    """Beside this file in a source distribution, at the root of the repository otherwise."""
    for folder in (HERE / "proto", *(parent / "proto" for parent in HERE.parents)):
        if (folder / "folio/v1").is_dir():
            return folder
    raise SystemExit(f"no proto/folio/v1 beside {HERE} or above it: build from the repository or its sdist")


def protos():
    folder = proto_folder()
    return [path.relative_to(folder).as_posix() for path in sorted((folder / "folio/v1").glob("*.proto"))]


class BuildWithStubs(build_py):
    def stub_folder(self):
        """An editable install runs from the sources."""
        return HERE / "src" if self.editable_mode else pathlib.Path(self.build_lib)

    def run(self):
        super().run()
        from grpc_tools import protoc

        out = self.stub_folder()
        out.mkdir(parents=True, exist_ok=True)
        kinds = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{proto_folder()}", *kinds, *protos()]):
            raise SystemExit("protoc failed")

    def get_outputs(self, include_bytecode=True):
        endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
        stubs = [str(self.stub_folder() / (name.removesuffix(".proto") + ending)) for name in protos() for ending in endings]
        return [*super().get_outputs(include_bytecode), *stubs]


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in protos():
            target = pathlib.Path(base_dir) / "proto" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(proto_folder() / name, target)


setup(cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProtos})
