"""Regenerates the gRPC stubs in src/ from the .proto files here: `python proto/generate.py [TARGET_DIR]`."""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO_DIR = Path(__file__).resolve().parent
SRC_DIR = PROTO_DIR.parent / "src"


def generate(target_dir: Path) -> None:
    """Writes *_pb2.py, *_pb2.pyi and *_pb2_grpc.py below target_dir, in the packages' folders."""
    target_dir.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path.relative_to(PROTO_DIR)) for path in PROTO_DIR.rglob("*.proto"))
    includes = Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{PROTO_DIR}", f"-I{includes}"]
    arguments += [f"--{kind}={target_dir}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
    if protoc.main(arguments + sources) != 0:
        raise SystemExit("protoc failed; its message is above")
    # protoc writes a service file for each .proto, also for those that have no service.
    for path in target_dir.rglob("*_pb2_grpc.py"):
        if "def add_" not in path.read_text():
            path.unlink()


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SRC_DIR)
