"""Prometheus and Alertmanager as they are installed, on this machine alone, for a test."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest


def needed(name: str) -> str:
    """Return where a program is, or skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian: apt-get install {name})")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


class Started:
    """A program that answers HTTP; ended at the end."""

    def __init__(self, words: list[Any], folder: Path, ready: str) -> None:
        self.log = folder / "log.txt"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*map(str, words)], cwd=folder, stdout=log, stderr=log)
        try:
            self.wait(lambda: self._is_ready(ready))
        except BaseException:
            self.close()
            raise

    def _is_ready(self, url: str) -> bool:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            return False
        return True

    def wait(self, condition: Any, seconds: float = 60.0) -> Any:
        """Return what a condition returns, once that is something."""
        stop = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < stop, self.log.read_text()
            time.sleep(0.1)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class Prometheus(Started):
    """Prometheus, reading one target every 200 ms."""

    def __init__(self, folder: Path, target: str, token_file: Path | None = None) -> None:
        program, port = needed("prometheus"), free_port()
        folder.mkdir()
        access = f"\n    authorization: {{credentials_file: {token_file}}}" if token_file else ""
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs:\n"
            f"  - job_name: onkel{access}\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        words = [program, f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(words, folder, f"{self.url}/-/ready")

    def query(self, text: str) -> list[Any]:
        """Return what a query gives; one that is no query fails."""
        asked = urllib.parse.urlencode({"query": text})
        try:
            found = get(f"{self.url}/api/v1/query?{asked}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{text}: {error.read().decode()}") from None
        assert found["status"] == "success", found
        result: list[Any] = found["data"]["result"]
        return result


class Alertmanager(Started):
    """Alertmanager, on its own; what it notifies of goes to a webhook, if there is one."""

    def __init__(self, folder: Path, webhook: str | None = None) -> None:
        program, port = needed("prometheus-alertmanager"), free_port()
        folder.mkdir()
        hook = f", webhook_configs: [{{url: '{webhook}', send_resolved: true}}]" if webhook else ""
        (folder / "alertmanager.yml").write_text(
            "route: {receiver: people, group_by: ['...'], group_wait: 0s, group_interval: 200ms}\n"
            f"receivers: [{{name: people{hook}}}]\n"
        )
        words = [program, f"--config.file={folder}/alertmanager.yml",
                 f"--storage.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
                 "--cluster.listen-address="]  # fmt: skip
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(words, folder, f"{self.url}/-/ready")


def check_text(text: str) -> None:
    """Have Prometheus's own tool read metrics; what it finds fails."""
    program = needed("promtool")
    done = subprocess.run(
        [program, "check", "metrics"], input=text.encode(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
