"""A Dask cluster of real worker processes gives the result of one process, also when workers die."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from faults import LEVELS, hosted

from onnxreduce.api import reduce
from onnxreduce.errors import SetupError
from onnxreduce.graph.candidate import cut, whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.cluster import ClusterWorkers, Packed
from onnxreduce.oracle.workers import Task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as started:
        yield started


def command(folder: Path, *, sleep: float = 0.0) -> str:
    """An oracle of the user's: interesting where a Sqrt is left."""
    script = folder / "interesting.py"
    script.write_text(
        "import sys, time, onnx\n"
        f"time.sleep({sleep})\n"
        "sys.exit(all(node.op_type != 'Sqrt' for node in onnx.load(sys.argv[1]).graph.node))\n"
    )
    return f"command: {sys.executable} {script} {{model}} {{inputs}}"


def stored(arrays: dict[str, np.ndarray]) -> dict[str, StoredTensor]:
    return {name: StoredTensor.from_array(array) for name, array in arrays.items()}


def test_the_result_is_that_of_one_process(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(LEVELS)
    model, inputs = hosted(4, 4)
    one = reduce(model, str(tmp_path / "levels.toml"), inputs)
    setup = Setup(cluster=cluster.scheduler_address)
    many = reduce(model, str(tmp_path / "levels.toml"), inputs, setup=setup, output=tmp_path / "out")
    assert many.model == one.model
    assert many.summary["oracle_calls"] == one.summary["oracle_calls"]
    assert many.summary["confirmed_fresh"] and many.summary["noise_floor"] == one.summary["noise_floor"]
    assert many.summary["seconds_starting_runtime"] >= 0
    with Client(cluster, set_as_default=False) as client:
        assert client.run(_oracles_held) == dict.fromkeys(client.scheduler_info()["workers"], 0)


def test_large_weights_travel_once_to_each_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    weights = np.arange(1 << 18, dtype=np.float32)  # 1 MiB
    blob = StoredTensor.from_array(weights)
    model, inputs = hosted()
    index = GraphIndex(normalise(load(model)), {})
    candidate = whole(index.model, {**stored(inputs), "large": blob})
    workers = ClusterWorkers(cluster.scheduler_address, {"custom": command(tmp_path), "timeout": 60.0}, Setup())
    sent: list[int] = []
    scatter = workers._client.scatter

    def counted(data: bytes, **options: object) -> object:
        sent.append(len(data))
        return scatter(data, **options)

    workers._client.scatter = counted
    for _ in range(4):
        workers.submit(Task(candidate)).result()
    workers.close()
    assert sent.count(1 << 20) == 1


def test_a_candidate_arrives_as_it_was() -> None:
    model, inputs = hosted()
    feeds = stored(inputs)
    index = GraphIndex(normalise(load(model)), feeds)
    before = whole(index.model, feeds)
    contents = {tensor.blob.digest: bytes(tensor.blob.view()) for tensor in feeds.values()}
    contents |= {blob.digest: bytes(blob.view()) for blob in before.external.values()}
    after = Packed.of(before).candidate(contents)
    assert after.digest() == before.digest()
    assert (after.outputs, after.nodes) == (tuple(before.outputs), before.nodes)
    first = cut(index, [0], feeds)
    assert Packed.of(first).candidate(contents).expected == first.expected


@pytest.mark.skipif(os.name == "nt", reason="kills processes by signal")
def test_workers_that_die_are_survived(tmp_path: Path) -> None:
    model, inputs = hosted()
    text = command(tmp_path, sleep=0.1)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster:
        killed: list[int] = []

        def kill_some() -> None:
            for _ in range(2):
                time.sleep(2.0)
                pids = [worker.pid for worker in cluster.workers.values() if worker.pid]
                for pid in pids[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        killer = threading.Thread(target=kill_some)
        killer.start()
        result = reduce(model, text, inputs, setup=Setup(cluster=cluster.scheduler_address))
        killer.join()
    assert len(killed) == 2 and not any(psutil.pid_exists(pid) and _runs(pid) for pid in killed)
    assert result.summary["operators"] == ["Sqrt"]


def test_no_scheduler_is_told_in_one_line() -> None:
    with pytest.raises(SetupError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        ClusterWorkers("tcp://127.0.0.1:9", {"custom": "command: true", "timeout": 1.0}, Setup())


def test_a_scheduler_without_workers_is_told_in_one_line() -> None:
    with LocalCluster(n_workers=0, dashboard_address=None) as empty, pytest.raises(SetupError, match="has no workers"):
        ClusterWorkers(empty.scheduler_address, {"custom": "command: true", "timeout": 1.0}, Setup())


def _oracles_held() -> int:
    from onnxreduce.oracle import cluster as here

    return len(here._ORACLES)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
