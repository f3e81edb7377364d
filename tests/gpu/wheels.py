"""A folder of wheels for a machine where pip reaches nothing: `make wheels`.

python -m tests.gpu.wheels FOLDER --python 3.12 --platform manylinux_2_28_x86_64

Everything that `make gpu` needs beside torch and numpy, for that Python and platform.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WANTED = ("beartype", "einops", "hypothesis", "ipykernel", "ipywidgets", "jaxtyping", "matplotlib",
          "nbclient", "nbformat", "nbval", "nvidia-ml-py", "psutil", "pytest", "tqdm")  # fmt: skip
# With torch already; or asked for by a package that runs without.
LEFT_OUT = ("numpy", "torch", "debugpy", "jedi", "parso", "widgetsnbextension")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
MOST = 40e6  # bytes


def pins() -> list[str]:
    """The wanted packages in the versions of requirements.txt."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in WANTED]


def main(arguments: list[str] | None = None) -> int:
    """Download the wheels; 1 if one is missing or they are too large together."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.wheels", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "wheels")
    parser.add_argument("--python", default=".".join(map(str, sys.version_info[:2])))
    parser.add_argument("--platform", nargs="*", default=PLATFORMS)
    asked = parser.parse_args(arguments)
    options = ["-qq", "--disable-pip-version-check", "--only-binary=:all:"]
    options += [f"--python-version={asked.python}", f"--dest={asked.folder}"]
    options += [f"--platform={platform}" for platform in asked.platform]
    command = [sys.executable, "-m", "pip", "download", *options, *pins()]
    if subprocess.run(command).returncode:
        return 1
    for wheel in asked.folder.glob("*.whl"):
        if wheel.name.lower().startswith(tuple(f"{name}-" for name in LEFT_OUT)):
            wheel.unlink()
    size = sum(wheel.stat().st_size for wheel in asked.folder.glob("*.whl"))
    print(f"{len(list(asked.folder.glob('*.whl')))} wheels, {size / 1e6:.1f} MB, in {asked.folder}")
    return int(size > MOST)


if __name__ == "__main__":
    sys.exit(main())
