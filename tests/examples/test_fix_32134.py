"""examples/onnxruntime-32134/fix.py: what it repairs and what it refuses."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from onnxreduce.runtimes.packages import cached_versions, ort_web_package

FOLDER = Path(__file__).parents[2] / "examples" / "onnxruntime-32134"
sys.path.insert(0, str(FOLDER))

import fix  # noqa: E402

PINNED = "1.27.0"

# In the shape of the package's bundles: the same statements, as a minifier and as a bundler leaves them.
OPEN = "upload(t,r){let n=r.buffer,o=r.byteOffset,$=r.byteLength,a=eo($),u=this.storageCache.get(t);"
OWN = (
    'if(!u)throw new Error("none");let d=this.backend.device.createBuffer({mappedAtCreation:!0,size:a,usage:6}),'
    "c=d.getMappedRange();new Uint8Array(c).set(new Uint8Array(n,o,$)),d.unmap();"
    "let p=this.backend.device.createCommandEncoder();p.copyBufferToBuffer(d,0,u.gpuData.buffer,0,a),"
    "this.backend.device.queue.submit([p.finish()]),d.destroy()"
)
WRITE = (
    'if(!u)throw new Error("none");'
    "if(a===$&&o%4===0)this.backend.device.queue.writeBuffer(u.gpuData.buffer,0,n,o,$);"
    "else{let d=new Uint8Array(a);d.set(r),this.backend.device.queue.writeBuffer(u.gpuData.buffer,0,d,0,a)}"
)
PLAIN = """
    upload(id, data) {
      const srcArrayBuffer = data.buffer;
      const srcLength = data.byteLength;
      const size = calcNormalizedBufferSize(srcLength);
      const cache = this.storageCache.get(id);
      const staging = this.backend.device.createBuffer(
        // a comment
        { mappedAtCreation: true, size, usage: 6 }
      );
      staging.unmap();
      const commandEncoder = this.backend.device.createCommandEncoder();
      commandEncoder.copyBufferToBuffer(staging, 0, cache.gpuData.buffer, 0, size);
      this.backend.device.queue.submit([commandEncoder.finish()]);
      staging.destroy();
    }
    memcpy(sourceId, destinationId) {
"""
BACKEND = (
    "this.maxDispatchNumber=16;this.pendingDispatchNumber=0}flush(){if(!this.commandEncoder)return;this.endComputePass()}"
    "upload(e,t){this.gpuDataManager.upload(e,t)}memcpy(e,t){this.gpuDataManager.memcpy(e,t)}"
)


def bundle(body: str, opening: str = OPEN) -> str:
    return f"class A{{{opening}{body}}}memcpy(t,r){{}}}};class B{{constructor(){{{BACKEND}}}"


@pytest.fixture
def package(tmp_path):
    dist = tmp_path / "package" / "dist"
    dist.mkdir(parents=True)
    (dist / "ort.wasm.min.mjs").write_text("export default 1", "utf-8")
    return dist.parent


def test_the_flush_comes_before_the_encoder_of_an_upload_of_its_own():
    repaired = fix.repair(bundle(OWN))
    assert repaired.form == "own encoder"
    assert "d.unmap();this.backend.flush();let p=this.backend.device.createCommandEncoder()" in repaired.text
    assert repaired.text.replace(fix.FLUSH, "") == bundle(OWN)


def test_the_flush_comes_before_both_ways_of_writing_through_the_queue():
    repaired = fix.repair(bundle(WRITE))
    assert repaired.form == "queue.writeBuffer"
    assert '"none");this.backend.flush();if(a===$&&o%4===0)' in repaired.text
    assert repaired.text.replace(fix.FLUSH, "") == bundle(WRITE)


def test_code_for_reading_keeps_its_lines():
    repaired = fix.repair(PLAIN + BACKEND).text
    assert "\n      this.backend.flush();\n      const commandEncoder =" in repaired


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(fix.repair(bundle(OWN)).text, "repaired already", id="own encoder, repaired"),
        pytest.param(fix.repair(bundle(WRITE)).text, "repaired already", id="writeBuffer, repaired"),
        pytest.param(bundle(OWN) + bundle(OWN), "found 2 times", id="two managers"),
        pytest.param(BACKEND, "found nowhere", id="no manager"),
        pytest.param(bundle(OWN + ";" + OWN), "was found 2 times in its upload", id="two encoders"),
        pytest.param(bundle(OWN + ";" + WRITE), "was found 2 times in its upload", id="both forms"),
        pytest.param(bundle(OWN.replace("p.copy", "q.copy")), "was found nowhere in its upload", id="other encoder"),
        pytest.param(bundle(OWN.replace("0,u.gpu", "0,v.gpu")), "was found nowhere in its upload", id="other buffer"),
        pytest.param(bundle(WRITE.replace("a===$", "a===o")), "was found nowhere in its upload", id="other condition"),
        pytest.param(bundle(WRITE.partition("else")[0]), "was found nowhere in its upload", id="one write of two"),
        pytest.param(
            bundle(OWN, "upload(t,r){let u=this.storageCache.get(t);"), "nowhere in its upload", id="no sizes"
        ),
        pytest.param(
            bundle(OWN.replace("device.createCommandEncoder()", "getCommandEncoder()")), "no repair", id="in order"
        ),
        pytest.param(bundle(OWN).replace("flush(){", "submit(){"), "no flush()", id="nothing to call"),
    ],
)
def test_what_is_not_recognised_is_refused_and_named(text, said, package, monkeypatch, capsys):
    (package / "dist" / "ort.min.mjs").write_text(text, "utf-8")
    output = package.parent / "repaired"
    monkeypatch.setattr(sys, "argv", ["fix.py", str(package), "-o", str(output)])
    assert fix.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "ort.min.mjs" in line
    assert not output.exists()


def test_one_bad_bundle_refuses_the_package(package):
    (package / "dist" / "ort.all.mjs").write_text(bundle(OWN), "utf-8")
    (package / "dist" / "ort.min.mjs").write_text(BACKEND, "utf-8")
    with pytest.raises(fix.FixError, match=re.escape("ort.min.mjs")):
        fix.repair_package(package, package.parent / "repaired")
    assert not (package.parent / "repaired").exists()


def test_a_package_without_jsep_is_refused(package):
    with pytest.raises(fix.FixError, match="no bundle"):
        fix.repair_package(package, package.parent / "repaired")


def test_the_package_itself_is_left_alone(package):
    (package / "dist" / "ort.min.mjs").write_bytes(bundle(OWN).encode() + b"\r\n// \xc3\xa9")
    (package / "package.json").write_text("{}", "utf-8")
    before = {path: path.read_bytes() for path in package.rglob("*") if path.is_file()}
    for there in (package, package / "dist" / "new"):
        with pytest.raises(fix.FixError):
            fix.repair_package(package, there)
    output = package.parent / "repaired"
    done = subprocess.run(
        [sys.executable, FOLDER / "fix.py", package, "-o", output], capture_output=True, text=True, check=True
    )
    assert f"{output / 'dist' / 'ort.min.mjs'}: upload() flushes first (own encoder)" in done.stdout
    assert {path: path.read_bytes() for path in package.rglob("*") if path.is_file()} == before
    changed = [path for path in before if (output / path.relative_to(package)).read_bytes() != before[path]]
    assert changed == [package / "dist" / "ort.min.mjs"]
    assert (output / "dist" / "ort.min.mjs").read_bytes().endswith(b"\r\n// \xc3\xa9")


@pytest.mark.parametrize(
    ("version", "form"), [("1.22.0", "own encoder"), (PINNED, "own encoder"), ("1.30.0", "queue.writeBuffer")]
)
def test_every_bundle_with_jsep_of_a_real_package_is_recognised(version, form):
    if version not in cached_versions():
        pytest.skip(f"onnxruntime-web {version} is not in the cache")
    found = {}
    for path in ort_web_package(version).dist.glob("ort.*"):
        text = path.read_bytes().decode("utf-8") if path.suffix in (".js", ".mjs") else ""
        if fix.holds_jsep(text):
            repaired = fix.repair(text)
            found[path.name] = repaired.form
            assert len(repaired.text) - len(text) < 40
    kinds = ("", ".all", ".webgpu") if version == "1.22.0" else ("", ".all")
    ends = (".bundle.min.mjs", ".min.mjs", ".mjs", ".min.js", ".js")
    assert found == {f"ort{kind}{end}": form for kind in kinds for end in ends}


def test_the_script_in_the_write_up_builds_the_smallest_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (FOLDER / "README.md").read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    exec(compile(script, "README.md", "exec"), {})
    session = onnxruntime.InferenceSession("smallest.onnx", providers=["CPUExecutionProvider"])
    with np.load("smallest.npz") as inputs:
        results = session.run(["D", "ad"], dict(inputs))
    assert [values.tolist() for values in results] == [[-1.0], [1.0]]
