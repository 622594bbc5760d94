"""Check the recipes for many machines: each file is valid for its scheduler, and does what the page promises."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.page_blocks import Block, blocks_of
from tools.reference import ROOT

BLOCKS = blocks_of(ROOT / "docs" / "scale.md")


def recipe(word: str) -> Block:
    """Return the only block that contains the word."""
    (found,) = (block for block in BLOCKS if word in block.text)
    return found


def test_kubernetes_job_conforms_to_its_schema() -> None:
    kubernetes_validate: Any = pytest.importorskip("kubernetes_validate", reason="tox -e machines installs it")
    yaml: Any = pytest.importorskip("yaml", reason="needs the extras")

    job = yaml.safe_load(recipe("kind: Job").text)

    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert subprocess.run(["bash", "-n"], input=container["args"][0], text=True, check=False).returncode == 0
    assert f"auto/{job['spec']['completions']}" in container["args"][0]


def test_github_workflow_conforms_to_its_schema(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="tox -e machines installs it")
    workflow = tmp_path / "workflow.yml"
    workflow.write_text(recipe("strategy.job-index }}of").text)

    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", workflow],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


@pytest.mark.skipif("JSBENCH_MACHINES" not in os.environ, reason="starts four sessions: tox -e machines runs it")
def test_slurm_array_resumes_a_killed_job_and_merges_to_the_whole_run(tmp_path: Path) -> None:
    script = recipe("#SBATCH").text
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", script, flags=re.MULTILINE))
    assert options["array"] == "1-20"
    assert "auto/20" in script
    # The same with two jobs and recorded answers; the first job makes only some of its attempts, as if it were killed.
    asked = "--jsbench-engine=openai --jsbench-model=MODEL --jsbench-dataset=schemas"
    assert asked in script
    script = script.replace(
        asked, "--jsbench-engine=scripted --jsbench-engine-option=answers=answers.json $MORE"
    ).replace("auto/20", "auto/2")
    (tmp_path / "answers.json").write_text('{"*": {"text": "{}", "delay": 0.01}}')
    for job, more in (("1", "--maxfail=1"), ("2", ""), ("1", "")):
        slurm = {"SLURM_ARRAY_TASK_ID": job, "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "1", "MORE": more}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, **slurm, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"shard {job}/2 by SLURM_ARRAY_TASK_ID={job}" in ran.stdout, ran.stdout + ran.stderr

    merge = "jsbench merge runs/shard-*/* --output merged --min-pass-rate 0.9"
    assert merge.removeprefix("jsbench ") in "".join(block.text for block in BLOCKS)
    merged = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m pytest_jsbench {merge.removeprefix('jsbench ')}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert merged.returncode == 1
    assert "is missing" not in merged.stdout
    records = list(map(json.loads, (tmp_path / "merged" / "records.jsonl").read_text().splitlines()))
    assert len({record["id"] for record in records if "id" in record}) == 88


SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"data": [{"id": "MODEL"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "{}"}
        self.reply({"model": "MODEL", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Server).serve_forever()
"""


@pytest.mark.skipif("JSBENCH_MACHINES" not in os.environ, reason="starts four sessions: tox -e machines runs it")
def test_fleet_sends_a_shard_to_each_server_and_adds_a_history_line(tmp_path: Path) -> None:
    script = recipe("vllm serve").text
    for theirs, ours in {
        "gpus=(0 1 2 3 4 5 6 7)": "gpus=(0 1)",
        "8000 +": f"{20_000 + os.getpid() % 20_000} +",
        "vllm serve": f"{sys.executable} server.py",
        "--jsbench-dataset=schemas": "--jsbench-dataset=schemas --jsbench-engine-option=stream=false",
    }.items():
        assert theirs in script
        script = script.replace(theirs, ours)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "schemas").mkdir()
    for number in range(20):
        (tmp_path / "schemas" / f"c{number}.json").write_text(json.dumps({"title": str(number), "type": "object"}))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    logs = "".join(path.read_text() for path in tmp_path.glob("logs/*"))
    assert ran.returncode == 0, ran.stdout + ran.stderr + logs
    assert "server-1" in ran.stdout
    assert "merged 2 runs: 20 attempts, 0 of them in more than one run" in ran.stdout
    (line,) = map(json.loads, (tmp_path / "history.jsonl").read_text().splitlines())
    assert line["metrics"]["passed"] == 20
