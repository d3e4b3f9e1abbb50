"""Applications are known by what they are, not by what looks like them, and advice goes by version and platform."""

from __future__ import annotations

import pytest

from parse_bytes import readings
from thpdiag.host.derived import add_derived_facts
from thpdiag.knowledge.applications import (
    application,
    application_of_package,
    applications,
    running_applications,
    stance,
)
from thpdiag.model import Case, Citation, Fact
from thpdiag.model.parser import Source
from thpdiag.parsers.host import identity as packages

CITE = Citation("ps", 1)
HDFS = "java -Dproc_datanode -Xmx4g org.apache.hadoop.hdfs.server.datanode.DataNode"
WEBSPHERE = "/opt/IBM/java/bin/java -classpath x com.ibm.ws.bootstrap.WSLauncher com.ibm.ws.runtime.WsServer"


@pytest.mark.parametrize(
    ("comm", "command", "names"),
    [
        ("mongod", "/usr/bin/mongod -f /etc/mongod.conf", ["mongodb"]),
        ("mongos", "/usr/bin/mongos -f /etc/mongos.conf", []),
        ("redis-server", "/usr/bin/redis-server *:6379", ["redis"]),
        ("valkey-server", "/usr/bin/valkey-server *:6379", ["redis"]),
        ("redis-sentinel", "/usr/bin/redis-sentinel *:26379", []),
        ("java", HDFS, ["hadoop", "jvm"]),
        ("java", "java -cp /opt/iotdb/lib/* org.apache.iotdb.db.service.DataNode", ["jvm"]),
        ("java", "java -cp /opt/app/hadoop-client.jar com.example.App", ["jvm"]),
        ("impalad", "/usr/lib/impala/sbin/impalad", ["impala"]),
        ("postgres", "/usr/local/greenplum-db/bin/postgres -D /data/primary/gpseg0 -p 40000", ["greenplum"]),
        ("postgres", "postgres: 40000, app db 10.0.0.1(40112) con5 seg0 cmd3 SELECT", ["greenplum"]),
        ("postgres", "/usr/pgsql-14/bin/postmaster -D /var/lib/pgsql/14/data", ["postgresql"]),
        ("postgres", "/home/yugabyte/postgres/bin/postgres -D /mnt/d0/pg_data", []),
        ("yb-tserver", "/home/yugabyte/bin/yb-tserver", ["yugabytedb"]),
        ("ora_pmon_ORCL", "ora_pmon_ORCL", ["oracle"]),
        ("asm_pmon_+ASM", "asm_pmon_+ASM", []),
        ("hdbindexserver", "hdbindexserver -port 30003", ["sap-hana"]),
        ("iqsrv16", "iqsrv16 @params.cfg db.db", ["sap-iq"]),
        ("beam.smp", "/opt/couchbase/lib/erlang/erts-9/bin/beam.smp -A 16", ["couchbase"]),
        ("beam.smp", "/usr/lib64/erlang/erts-9/bin/beam.smp -rabbit", []),
        ("memcached", "/opt/couchbase/bin/memcached -C /opt/couchbase/var/x.json", ["couchbase"]),
        ("memcached", "/usr/bin/memcached -u memcached -p 11211", []),
        ("splunkd", "/opt/splunk/bin/splunkd -p 8089 start", ["splunk"]),
        ("splunkd", "/opt/splunkforwarder/bin/splunkd -p 8089 start", []),
        ("java", WEBSPHERE, ["websphere", "jvm"]),
        ("ns-slapd", "/usr/sbin/ns-slapd -D /etc/dirsrv/slapd-x", ["directory-server"]),
        ("slapd", "/usr/sbin/slapd -u ldap", []),
        ("java", "java -Xmx2g org.voltdb.VoltDB create", ["voltdb", "jvm"]),
        ("java", "java -Xms8g org.apache.cassandra.service.CassandraDaemon", ["cassandra", "jvm"]),
        ("java", "java org.apache.cassandra.tools.NodeTool status", ["jvm"]),
        ("vertica", "/opt/vertica/bin/vertica -D /home/dbadmin", ["vertica"]),
        ("mysqld", "/usr/sbin/mysqld --plugin-load=ha_tokudb.so", ["tokudb"]),
        ("mysqld", "/usr/sbin/mysqld --basedir=/usr", []),
        ("mariadbd", "/usr/sbin/mariadbd", ["mariadb"]),
        ("mysqld", "/usr/sbin/mysqld --plugin-dir=/usr/lib/mysql/plugin --user=mysql --mariadb", ["mariadb"]),
        ("asd", "/usr/bin/asd --config-file /etc/aerospike/aerospike.conf", ["aerospike"]),
        ("clickhouse-serv", "/usr/bin/clickhouse-server --config x", ["clickhouse"]),
        ("cockroach", "cockroach start --insecure", ["cockroachdb"]),
        ("redpanda", "/opt/redpanda/bin/redpanda", ["redpanda"]),
        ("nuodb", "/opt/nuodb/bin/nuodb --connect-key 1", ["nuodb"]),
        ("memsqld", "/opt/singlestoredb-server/memsqld --defaults-file /etc/memsql.cnf", ["singlestore"]),
        ("java", "java -Xms4g org.elasticsearch.bootstrap.Elasticsearch -d", ["elasticsearch", "jvm"]),
        ("qemu-system-x86", "qemu-system-x86_64 -m 4096", ["kvm"]),
        ("qemu-x86_64", "qemu-x86_64 ./program", []),
        ("kvm-pit/1234", "[kvm-pit/1234]", []),
        ("kubelet", "/usr/bin/kubelet --config x", ["kubernetes"]),
        ("etcd", "etcd --name m1", ["go"]),
        ("java", "java -XX:+UseTransparentHugePages -jar a.jar", ["jvm-thp", "jvm"]),
        ("java", "java -XX:-UseTransparentHugePages -jar a.jar", ["jvm"]),
        ("java", "java -XX:+TransparentHugePage -jar a.jar", ["openj9-thp", "jvm"]),
        ("java", "java -cp x org.apache.catalina.startup.Bootstrap start", ["tomcat", "jvm"]),
        ("javac", "javac App.java", []),
        ("php-fpm7.4", "php-fpm: pool www", ["php-fpm"]),
        ("orted", "orted --daemonize", ["hpc"]),
        ("env", "env LD_PRELOAD=/usr/lib/libtcmalloc.so.4 /srv/app", ["tcmalloc"]),
        ("mysqld_safe", "/bin/sh /usr/bin/mysqld_safe --malloc-lib=/usr/lib64/libjemalloc.so.2", ["jemalloc"]),
        ("env", "env LD_PRELOAD=/usr/lib/libmimalloc.so.2 /srv/app", ["mimalloc"]),
    ],
)
def test_what_a_process_is(comm: str, command: str, names: list[str]) -> None:
    """Every application by its own process, and none by one that has the same name or a similar command line."""
    assert [app.name for app in running_applications(comm, command)] == names


def test_every_application_is_told_apart_from_others() -> None:
    """The list above has a process of each application of the table."""
    marks = getattr(test_what_a_process_is, "pytestmark")  # noqa: B009
    named = {name for _, _, names in marks[0].args[1] for name in names}
    assert named == {app.name for app in applications()}


def test_each_says_what_its_makers_say() -> None:
    """A stance that advice knows, a sentence, and where it stands."""
    for app in applications():
        words = {app.stance, *(row["stance"] for row in app.by)}
        assert words <= {"disable", "madvise", "keep", "depends"}, app.name
        assert app.source, app.name
        assert all([app.advice, *(row["advice"] for row in app.by)]), app.name


@pytest.mark.parametrize(
    ("name", "told", "word"),
    [
        ("mongodb", {"version": "7.0.12", "arch": "x86_64"}, "disable"),
        ("mongodb", {"version": "8.0.4", "arch": "x86_64"}, "keep"),
        ("mongodb", {"version": "10.0", "arch": "aarch64"}, "keep"),
        ("mongodb", {"version": "8.0.4", "arch": "s390x"}, "disable"),
        ("mongodb", {}, "depends"),
        ("mongodb", {"version": "latest"}, "depends"),
        ("oracle", {"version": "19.0.0"}, "disable"),
        ("oracle", {"version": "21", "kernel": "5.15.0-100.96.32.el8uek.x86_64"}, "madvise"),
        ("oracle", {}, "madvise"),
        ("sap-hana", {"platform": "sles12", "os": "12.5"}, "disable"),
        ("sap-hana", {"platform": "sles15", "os": "15.4"}, "disable"),
        ("sap-hana", {"platform": "sles15", "os": "15.5"}, "madvise"),
        ("sap-hana", {"platform": "sles15", "os": "15"}, "disable"),
        ("sap-hana", {"platform": "sles16", "os": "16.0"}, "madvise"),
        ("vertica", {"platform": "el7"}, "keep"),
        ("vertica", {"platform": "el8"}, "depends"),
        ("vertica", {}, "depends"),
        ("kvm", {}, "keep"),
        ("redis", {"version": "7.2.1"}, "madvise"),
    ],
)
def test_what_is_advised_goes_by_version_and_platform(name: str, told: dict[str, str], word: str) -> None:
    """A row of the table counts only if all of its conditions are known to hold."""
    app = application(name)
    assert app is not None
    assert stance(app, told).word == word


def test_go_1_21_0_is_told_from_its_neighbours() -> None:
    """One release of Go stalls by itself."""
    app = application("go")
    assert app is not None
    said = {version: stance(app, {"version": version}).advice for version in ("1.20.9", "1.21.0", "1.21.1", "1.22")}
    assert "stalls; 1.21.1" in said["1.21.0"]
    assert len(set(said.values())) == 2


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("mongodb-org-server-7.0.12-1.el8.x86_64       Mon 05 Aug 2024 10:00:00 AM UTC", "mongodb", "7.0.12"),
        ("redis-6.2.7-1.el9.x86_64", "redis", "6.2.7"),
        ("postgresql14-server-14.11-1PGDG.rhel8.x86_64", "postgresql", "14.11"),
        ("ii  redis-server   5:6.0.16-1ubuntu1   amd64   Persistent key-value database", "redis", "6.0.16"),
        ("ii  mariadb-server-10.6:amd64  1:10.6.12-0ubuntu0.22.04.1  amd64  MariaDB", "mariadb", "10.6.12"),
    ],
)
def test_versions_of_packages(line: str, name: str, version: str) -> None:
    """Without epoch and the distribution's own release."""
    (fact,) = packages.PACKAGES.read(Source("installed-rpms"), iter([(1, line)]))
    assert isinstance(fact, Fact)
    assert (fact.name, fact.value, fact.label("app")) == ("package.version", version, name)


@pytest.mark.parametrize(
    "line",
    [
        "rc  redis-server   5:6.0.16-1ubuntu1   amd64   removed, its files remain",
        "mongodb-org-shell-8.0.4-1.el8.x86_64", "redis-sentinel-6.2.7-1.el9.x86_64", "bash-5.1.8-6.el9.x86_64",
        "package mongodb-org-server is not installed", "",
    ],
)  # fmt: skip
def test_other_packages_tell_nothing(line: str) -> None:
    """Clients, what was removed, and all the rest."""
    assert list(packages.PACKAGES.read(Source("installed-rpms"), iter([(1, line)]))) == []


def test_the_list_of_packages_tells_tuned_too() -> None:
    """The version below which tuned overrides the boot line."""
    (fact,) = packages.PACKAGES.read(Source("installed-rpms"), iter([(1, "tuned-2.4.1-1.el7.noarch   Mon")]))
    assert isinstance(fact, Fact)
    assert (fact.name, fact.value) == ("tuned.version", "2.4.1")
    assert application_of_package("tuned") is None


def _process(comm: str, command: str) -> Fact:
    return Fact("process.command", command, CITE, (("pid", "1"), ("comm", comm)))


def _package(app: str, version: str) -> Fact:
    return Fact("package.version", version, Citation("installed-rpms", 7), (("app", app), ("package", app)))


def _derived(*facts: Fact) -> dict[tuple[str, str | None], object]:
    return {(f.name, f.label("app")): f.value for f in add_derived_facts(Case("c", facts, ())).facts}


def test_a_package_counts_for_a_process_that_runs() -> None:
    """Installed is not running; what the program says of itself counts more."""
    mongod = _process("mongod", "/usr/bin/mongod")
    assert ("app.version", "mongodb") not in _derived(_package("mongodb", "8.0.4"))
    found = _derived(_package("mongodb", "8.0.4"), mongod)
    assert (found["app.version", "mongodb"], found["app.stance", "mongodb"]) == ("8.0.4", "keep")
    said = Fact("app.version", "7.0.2", Citation("mongod.log", 1), (("app", "mongodb"),))
    found = _derived(_package("mongodb", "8.0.4"), mongod, said)
    assert (found["app.version", "mongodb"], found["app.stance", "mongodb"]) == ("7.0.2", "disable")


def test_the_path_of_a_program_tells_its_version() -> None:
    """The listener of Oracle runs from the home of its release."""
    listener = _process("tnslsnr", "/u01/app/oracle/product/19.0.0/dbhome_1/bin/tnslsnr LISTENER -inherit")
    assert ("app.version", "oracle") not in _derived(listener)
    found = _derived(listener, _process("ora_pmon_ORCL", "ora_pmon_ORCL"))
    assert (found["app.version", "oracle"], found["app.stance", "oracle"]) == ("19", "disable")


def test_no_application_among_the_processes_is_an_answer() -> None:
    """Without a list of processes there is none."""
    assert _derived(_process("bash", "-bash"))["app.stance", None] == "none"
    assert not [name for name, _ in _derived(Fact("platform", "el8", CITE)) if name == "app.stance"]


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("db version v7.0.12", "mongodb", "7.0.12"),
        ('{"t":{"$date":"x"},"s":"I","msg":"Build Info","attr":{"buildInfo":{"version":"8.0.4","gitVersion":"x"}}}',
         "mongodb", "8.0.4"),
        ("2018-07-25T10:00:00.000+0000 I CONTROL  [initandlisten] db version v4.0.3", "mongodb", "4.0.3"),
        ("12:C 25 Jul 10:00:00.000 # Redis version=6.2.6, bits=64, commit=00000000", "redis", "6.2.6"),
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "redis", "7.0.15"),
        ("redis_version:5.0.7", "redis", "5.0.7"),
        ("go version go1.21.0 linux/amd64", "go", "1.21.0"),
        ("etcd: Go Version: go1.20.13", "go", "1.20.13"),
    ],
)  # fmt: skip
def test_versions_that_applications_say(line: str, name: str, version: str) -> None:
    """In their logs and in answer to --version."""
    facts = [r.record for r in readings(f"\n{line}\n".encode()) if isinstance(r.record, Fact)]
    assert [(f.value, f.label("app")) for f in facts if f.name == "app.version"] == [(version, name)]
