"""Workloads, sweeps, studies, tables, reports."""

import html
import os
import pickle
import signal
import threading

import numpy as np
import pytest
import warpsim


def test_workloads_run_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    r = warpsim.run("vecadd", chip="gtx480", set={"n": 2048}, keep=["c"])
    assert r.result == "pass" and r.cycles > 0 and r.chip == "gtx480"
    assert r.to_dict()["params"]["n"] == 2048
    assert r.buffer("c").shape == (2048,) and r.buffer("c").dtype == np.float32
    with pytest.raises(KeyError):
        r.buffer("none")
    chip = warpsim.chip("gtx480", **{"memory.l2.hit_latency": 900})
    slow = warpsim.run("vecadd", chip=chip, set={"n": 2048})
    assert slow.cycles > r.cycles and slow.to_dict()["set"] == {"memory.l2.hit_latency": "900"}
    moved = warpsim.compare(r, slow)
    at = moved["metric"].index("cycles")
    assert (moved["a"][at], moved["b"][at]) == (r.cycles, slow.cycles) and moved["percent"][at] > 0
    assert len(warpsim.compare(r, r)) == 0
    assert "vecadd" in warpsim.workloads()["workload"] and len(warpsim.workloads()) > 60


def test_functional_and_other_options():
    r = warpsim.run("vecadd", chip="v100", functional=True)
    assert r.result == "pass" and r.cycles == 0
    assert warpsim.run("vecadd", chip="v100", policy="mimd", set={"n": 256}).policy.startswith("mimd")
    with pytest.raises(warpsim.LimitReached) as caught:
        warpsim.run("vecadd", chip="v100", max_cycles=5100)
    assert caught.value.result.result == "stopped"
    for wrong in [{"set": {"none": 1}}, {"policy": "none"}, {"check": "none"}, {"threads": 0}, {"variant": "none"}]:
        with pytest.raises(warpsim.Error):
            warpsim.run("vecadd", **wrong)
    with pytest.raises(warpsim.Error) as caught:
        warpsim.run("vecad")
    assert "did you mean `vecadd`" in caught.value.help


def test_a_result_that_differs_is_an_exception(tmp_path):
    (tmp_path / "k.ptx").write_text(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 at) {\n.reg .b64 %a;\n"
        "ld.param.u64 %a, [at];\nst.global.u32 [%a], 7;\nret;\n}\n"
    )
    (tmp_path / "workload.yaml").write_text(
        "schema: 1\nname: wrong\ndescription: Stores 7.\nschedule: independent\n"
        "variants:\n- {name: only, file: k.ptx, compiler: hand, target: sm_70}\n"
        "buffers:\n  out: {type: u32, length: 1, init: zeros}\n"
        "launches:\n- {entry: k, grid: [1], block: [1], args: [out]}\nexpect:\n- {buffer: out, values: [8], tolerance: exact}\n"
    )
    with pytest.raises(warpsim.Differs) as caught:
        warpsim.run(tmp_path, chip="v100")
    assert caught.value.result.result == "fail" and caught.value.result.cycles > 0 and "out" in str(caught.value)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(sent, warpsim.Differs) and str(sent) == str(caught.value) and sent.result is None


SWEEP = """
schema: 1
name: small
run: {max_cycles: 100000}
axes:
  workload: [vecadd]
  chip: [gtx480, v100]
  set:
    n: [256, 512]
"""


def test_sweeps_give_tables(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SWEEP)
    told = []
    done = warpsim.sweep(file, results=tmp_path / "out", progress=lambda *far: told.append(far))
    assert (done.name, done.points, done.simulated, done.had) == ("small", 4, 4, 0)
    again = warpsim.sweep(file, results=tmp_path / "out", jobs=1)
    assert (again.simulated, again.had, again.bad, again.broken) == (0, 4, {}, [])
    table = again.table()
    assert {"point", "chip", "metric", "value", "unit"} <= set(table.columns)
    assert len({(p, n) for p, n in zip(table["chip"], table["n"])}) == 4
    cycles = [row["value"] for row in table if row["metric"] == "cycles"]
    wide = again.table(wide=True)
    assert len(wide) == 4 and wide["cycles"] == cycles and sorted(set(wide["n"])) == [256, 512]
    assert wide["cycles"][0] == warpsim.run("vecadd", chip=wide["chip"][0], set={"n": wide["n"][0]}).cycles
    with pytest.raises(warpsim.Error) as caught:
        file.write_text(SWEEP.replace("axes", "axis"))
        warpsim.sweep(file, results=tmp_path / "out")
    assert caught.value.file == str(file) and caught.value.line


def test_shipped_sweeps_are_found_by_name(tmp_path, monkeypatch, sigint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(warpsim.Error):
        warpsim.sweep("none.yaml", results="out")
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        warpsim.sweep("generations.yaml", results="out")
    # Nothing of the interruption is left.
    assert warpsim.run("vecadd", chip="v100").result == "pass"


def test_policies_are_studied():
    table = warpsim.study_policies(["vecadd"], ["pdom_stack", "mimd"], chip="v100", set={"n": 256}, jobs=1)
    assert table["policy"] == ["pdom_stack", "mimd"] and table["result"] == ["pass", "pass"]
    assert table["speedup"][0] == 1 and all(cycles > 0 for cycles in table["cycles"])
    with pytest.raises(warpsim.Error):
        warpsim.study_policies(["vecadd"], ["none"])


def test_liveness_is_studied():
    told = []
    table = warpsim.study_liveness("v100", max_cycles=20_000, progress=lambda *far: told.append(far))
    rows = {(row["policy"], row["workload"]): row["verdict"] for row in table}
    assert {policy for policy, _ in rows} >= set(warpsim.policies()["policy"])
    assert {"terminates"} < set(rows.values()) and all(done <= of == len(rows) for _, done, of in told if of)
    with pytest.raises(warpsim.Error, match="there is no chip"):
        warpsim.study_liveness("none")


def test_microbenchmarks_are_beside_what_was_published():
    table = warpsim.study_microbenchmarks(["gtx980"], gated=True)
    assert len(table) and set(table["chip"]) == {"gtx980"} and all(table["holds"])
    for row in table:
        assert row["published"] is None or abs(100 * (row["ours"] / row["published"] - 1) - row["error"]) < 1e-6
    with pytest.raises(warpsim.Error, match="no measurements for `none`"):
        warpsim.study_microbenchmarks(["none"])


def test_registers_are_beside_those_of_ptxas():
    table = warpsim.study_registers()
    assert len(table) > 100 and all(0 < ours <= 255 for ours in table["ours"])


MEASURED = """
schema: 1
sources: {made: made up}
machines:
  m: {chip: v100, set: [memory.copies_fill_l2=false], launch_cycles: 100, source: made}
programs:
- program: no-such-program
  kernels: [{kernel: k, measured: {m: {cycles: 5}}}]
workloads:
- run: vecadd --set n=256
  kernels: [{kernel: vecadd, launch: 0, measured: {m: {cycles: 1000, dram_read_sectors: 64}}}]
"""


def test_kernels_are_beside_those_of_hardware(tmp_path):
    data = tmp_path / "measured.yaml"
    data.write_text(MEASURED)
    table = warpsim.study_silicon(data=data)
    assert table["kernel"] == ["vecadd"] and table["silicon_cycles"] == [1000]
    assert table["silicon_dram_read_sectors"] == [64] and table["cycles"][0] == 1000 * table["ratio"][0]
    own = warpsim.run("vecadd", chip="v100", set={"n": 256, "memory.copies_fill_l2": False}).cycles
    assert table["cycles"] == [own + 100]
    slower = warpsim.study_silicon(data=data, set={"memory.l2.hit_latency": 900})
    assert slower["cycles"][0] > table["cycles"][0]
    assert warpsim.study_silicon(data=data, only="^vec")["cycles"] == table["cycles"]
    with pytest.raises(warpsim.Error, match="no workload that matches"):
        warpsim.study_silicon(data=data, only="^add")
    with pytest.raises(warpsim.Error, match="none of the programs"):
        warpsim.study_silicon(tmp_path, data=data)


def test_tables_are_read_by_arrow():
    table = warpsim.Table({"a": [1, None], "b": [0.5, 2.0], "c": ["x", None]})
    assert len(table) == 2 and list(table)[0] == {"a": 1, "b": 0.5, "c": "x"}
    capsule = table.__arrow_c_stream__()
    assert type(capsule).__name__ == "PyCapsule" and "arrow_array_stream" in repr(capsule)
    assert "<td>0.5</td>" in table._repr_html_()
    del capsule


def test_pyarrow_reads_tables():
    pyarrow = pytest.importorskip("pyarrow")
    table = warpsim.Table({"a": [1, None], "b": [0.5, 2.0], "c": ["x", None]}).to_pyarrow()
    assert table.to_pydict() == {"a": [1, None], "b": [0.5, 2.0], "c": ["x", None]}
    assert table.schema.types == [pyarrow.int64(), pyarrow.float64(), pyarrow.string()]


def test_polars_reads_tables():
    pytest.importorskip("polars")
    frame = warpsim.policies().to_polars()
    assert frame.columns == ["policy", "what it does", "fairness"] and "pdom_stack" in frame["policy"].to_list()


def test_pandas_reads_tables():
    pytest.importorskip("pandas")
    frame = warpsim.Table({"a": [1, 2], "b": [0.5, 2.0]}).to_pandas()
    assert frame["a"].sum() == 3 and list(frame.columns) == ["a", "b"]
    gaps = warpsim.Table({"n": [1, None], "x": [0.5, None], "s": ["a", None]}).to_pandas()
    assert str(gaps["n"].dtype) == "Int64" and gaps["n"][0] == 1 and gaps["n"].isna()[1]
    assert str(gaps["x"].dtype) == "float64" and gaps["s"][0] == "a"


def test_reports_are_text_and_pages(tmp_path):
    r = warpsim.run("vecadd", chip="v100")
    report = r.report()
    assert "cycles: " in str(report) and "issue slots: " in str(report) and "host:" not in str(report)
    assert report.html.startswith("<!") and "vecadd" in report.html
    assert "<iframe srcdoc=" in report._repr_html_()
    assert html.unescape(report._repr_html_()).count("<script") == 2
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == report.html
    assert "cycles" in r._repr_html_() and repr(r).startswith("<Result of vecadd on v100: ")
    assert r.bound


def test_chips_say_what_they_are():
    h100 = warpsim.chip("h100", **{"memory.l2.hit_latency": 200})
    assert (h100.compute_capability, h100.sms, h100.name) == ((9, 0), 132, "h100")
    assert h100["memory.l2.hit_latency"] == 200 and h100.core_mhz > 1000 and h100.dram_bytes_per_second > 1e12
    assert h100.but(**{"sm.branch_latency": 9}).changes == {"memory.l2.hit_latency": "200", "sm.branch_latency": "9"}
    assert "132" in h100._repr_html_() and "memory.l2.hit_latency=200" in repr(h100)
    with pytest.raises(KeyError):
        h100["memory.l9"]
    with pytest.raises(warpsim.Error, match="hit_latenc"):
        warpsim.chip("h100", **{"memory.l2.hit_latenc": 200})
    assert "h100" in warpsim.chips() and "lrr" in warpsim.schedulers()["scheduler"]
    assert "cycles" in warpsim.metrics()["metric"]
