"""From what a user asks for to an oracle: one, or one over several workers here or on a cluster."""

from __future__ import annotations

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.ahead import AheadOracle
from onnxreduce.oracle.build import BuiltOracle, Setup, refuse_idle
from onnxreduce.oracle.custom import CommandOracle, CustomOracle
from onnxreduce.oracle.rebuild import rebuild
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Oracle
from onnxreduce.oracle.workers import LocalWorkers, Workers


def oracle_for(asked: OracleSpec | Oracle, setup: Setup) -> Oracle:
    """The oracle, which the caller closes unless it was given. Raises BadInputError where it is one for itself."""
    runtimes = (asked.reference.runtime, asked.suspect.runtime) if isinstance(asked, OracleSpec) else ()
    refuse_idle(setup, asked.name, runtimes)
    if setup.jobs == 1 and setup.cluster is None:
        return BuiltOracle(asked, setup) if isinstance(asked, OracleSpec) else asked
    if setup.jobs != 1 and setup.cluster is not None:
        raise BadInputError("--jobs does not go with --cluster, which uses all workers of the cluster")
    if setup.listen is not None:
        raise BadInputError("--listen names one port: it does not go with several workers")
    if not isinstance(asked, (OracleSpec, CommandOracle)):
        raise BadInputError("--jobs and --cluster need an oracle of two targets, or a command: a function runs here")
    if setup.jobs != 1 and isinstance(asked, OracleSpec) and asked.slower is not None:
        raise BadInputError("--jobs does not go with --slower: workers on one machine slow each other down")
    record = asked.to_json() if isinstance(asked, OracleSpec) else asked.as_record()
    workers: Workers
    if setup.cluster is not None:
        from onnxreduce.oracle.cluster import ClusterWorkers

        workers = ClusterWorkers(setup.cluster, {**record, "ort_web": setup.ort_web}, setup)
    else:
        workers = LocalWorkers(lambda: rebuild(record, setup), setup.jobs)
    return AheadOracle(asked.name, workers, None if isinstance(asked, CustomOracle) else asked.tolerance)
