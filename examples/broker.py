"""A Kafka broker on this machine, of one process: for the example `live.py`, and for tests.

Spark fetches what it needs from Maven Central, once; then it is in Spark's folder of such packages.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Spark's source and sink of topics. Of 4.3.0 there was none; this one runs with pyspark 4.2 and 4.3."""
EXCLUDED = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
"""Large packages that the connector asks for and pyspark has."""

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
num.partitions=3
"""


def jars(spark: SparkSession) -> list[str]:
    """Return the jars of a broker; those that are missing are fetched. They are not added to the session."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    address = jvm.java.net.URI(f"ivy://{BROKER}?transitive=true")
    fetched = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(address)
    # Spark leaves out what it has itself.
    own = (Path(pyspark.__file__).parent / "jars").glob("scala-library-2.13.*.jar")
    return [*(fetched.apply(at) for at in range(fetched.size())), *map(str, own)]


@contextmanager
def broker(classes: list[str], folder: Path) -> Iterator[str]:
    """Run a broker whose data are in `folder`; the address that clients connect to.

    Parameters
    ----------
    classes : list of str
        `jars`.
    folder : pathlib.Path
        It exists, and is empty.
    """
    ports = free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(broker=ports[0], controller=ports[1], folder=folder))
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(classes)]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with (folder / "log").open("w") as log:
        layout = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c"]
        subprocess.run([*layout, str(settings)], check=True, stdout=log, stderr=log)
        # In a group of its own, so that Ctrl-C in a terminal ends what reads from it first.
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log, start_new_session=True
        )
    try:
        until = time.monotonic() + 120
        while not is_open(ports[0]):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the broker did not start: {(folder / 'log').read_text()}")
            time.sleep(0.1)
        yield f"127.0.0.1:{ports[0]}"
    finally:
        process.kill()
        process.wait()


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens to."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def is_open(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0
