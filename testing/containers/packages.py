"""The packages of the broker's image: a bill of materials, and whether vulnerabilities of them are known.

    python -m testing.containers.packages sbom [FILE]
    python -m testing.containers.packages audit [--service pypi|osv]

Both read container/requirements.txt, where each package is pinned with its hashes. `sbom` writes CycloneDX in JSON, by
cyclonedx-bom, the same bytes for the same pins. `audit` has pip-audit ask PyPI or OSV about each package. The exit code is 1 if a
vulnerability is known, and 2 if the service does not know a package or cannot be reached: then nothing is proved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from testing.containers.lock import BROKER, FOLDER
from testing.places import ROOT
from testing.waiting import LONG_WAIT_S

SBOM: Final = ROOT / "build" / "sbom.json"
SERVICES: Final = ("pypi", "osv")
VULNERABLE: Final = 1
UNKNOWN: Final = 2
INSTALL: Final = "pip install --group audit"


def write_sbom(file: Path) -> str:
    """Write the bill of materials, and return a line about it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    options = [f"--pyproject={ROOT / 'pyproject.toml'}", "--output-reproducible", "--of=JSON", f"--output-file={file}"]
    _run("cyclonedx_py", "requirements", str(FOLDER / BROKER), *options, check=True)
    return f"{file}: {len(json.loads(file.read_text())['components'])} packages of container/{BROKER}"


def audited(service: str) -> tuple[int, list[str]]:
    """Return the exit code, and lines about what a service knows of the packages."""
    options = [
        "--disable-pip",
        "--require-hashes",
        "--format=json",
        "--progress-spinner=off",
        f"--vulnerability-service={service}",
    ]
    done = _run("pip_audit", f"--requirement={FOLDER / BROKER}", *options, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return UNKNOWN, [f"Error: the service {service} cannot be asked, so nothing is known: {reason}"]
    return verdict(report, service)


def verdict(report: Mapping[str, Any], service: str) -> tuple[int, list[str]]:
    """Return the exit code, and lines about a report of pip-audit."""
    packages = report["dependencies"]
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    lines = [
        f"{one['name']}=={one['version']}: {' '.join([flaw['id'], *flaw['aliases']])}; fixed in {' '.join(flaw['fix_versions'])}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    code = VULNERABLE if lines else UNKNOWN if unknown or not packages else 0
    if unknown:
        count = f"{len(unknown)} packages of {len(packages)}"
        lines.append(f"Error: the service {service} knows nothing of {count}: {', '.join(unknown)}")
    return code, lines or [f"{len(packages)} packages, no vulnerability known to {service}"]


def _run(module: str, *arguments: str, check: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
    if f"No module named {module}" in done.stderr:
        _fail(f"{module} is not installed: {INSTALL}")
    if check and done.returncode:
        _fail(done.stderr.strip())
    return done


def _fail(reason: str) -> NoReturn:
    print(f"Error: {reason}", file=sys.stderr)
    sys.exit(UNKNOWN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sbom").add_argument("file", type=Path, nargs="?", default=SBOM)
    commands.add_parser("audit").add_argument("--service", choices=SERVICES, default=SERVICES[0])
    options = parser.parse_args()
    if options.command == "sbom":
        print(write_sbom(options.file))
        return
    code, lines = audited(options.service)
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
