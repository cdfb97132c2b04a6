import pytest

from passnet.worker import compile_check

ENTRY = {
  "kernel": "_scale_relu",
  "pointer_dtypes": ["*fp32"] * 3,
  "constants": [["N", "4096"], ["B", "1024"]],
  "num_warps": 4,
  "route": "scale_relu",
}


def compiled(corpus, *entries, **fields):
  return compile_check.command(
    {"pass_dir": corpus("scale_relu"), "kernels": list(entries), "targets": [80], **fields}, lambda e: None
  )


def test_machine_code_without_a_device(corpus):
  reply = compiled(corpus, ENTRY, {**ENTRY, "aligned": False}, targets=[80, 90])
  assert reply["ok"]
  first, second = reply["kernels"]
  for target in ("sm_80", "sm_90"):
    facts = first["targets"][target]
    assert facts["registers"] > 0 and facts["spill_bytes"] == 0 and facts["shared"] == 0
    assert set(facts["loads"]) == {"16"} and set(facts["stores"]) == {"16"}  # 128-bit accesses
    assert set(second["targets"][target]["loads"]) == {"4"}  # nothing is known about the alignment
  assert first["route"] == "scale_relu"


def test_contraction_is_seen(corpus, tmp_path):
  (tmp_path / "_shared_kernels.py").write_text(
    "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, o, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
    "    v = tl.load(x + i)\n    tl.store(o + i, v * 3.0 + 1.5)\n"
  )
  entry = {"kernel": "k", "pointer_dtypes": ["*fp32"] * 2, "constants": [["B", "128"]]}
  request = {"pass_dir": str(tmp_path), "kernels": [entry], "targets": [80]}
  off = compile_check.command(request, lambda e: None)["kernels"][0]["targets"]["sm_80"]
  on = compile_check.command({**request, "enable_fp_fusion": True}, lambda e: None)["kernels"][0]["targets"][
    "sm_80"
  ]
  assert off["sass_ffma"] == 0 and on["sass_ffma"] > 0


@pytest.mark.parametrize(
  "change,code",
  [
    ({"kernel": "nothing"}, "kernel_missing"),
    ({"pointer_dtypes": ["*fp32"]}, "signature"),
    ({"constants": [["N", "4096"], ["B", "1000"]]}, None),
    ({"constants": [["N", "import os"], ["B", "8"]]}, "constant"),
  ],
)
def test_what_does_not_compile_is_a_finding(corpus, change, code):
  reply = compiled(corpus, {**ENTRY, **change})
  error = reply["kernels"][0]["targets"]["sm_80"]["error"]
  assert not reply["ok"] and (code is None or error["code"] == code) and error["message"]
