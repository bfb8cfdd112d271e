"""Compiles a kernel for the oldest and a new GPU, which needs none."""

import io

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel


@ct.kernel
def double(array):
    block = ct.bid(0)
    ct.store(array, index=(block,), tile=2 * ct.load(array, index=(block,), shape=(16,)))


array = ArrayConstraint(
    ct.float32,
    1,
    index_dtype=ct.int32,
    stride_lower_bound_incl=0,
    alias_groups=(),
    may_alias_internally=False,
)
signature = KernelSignature([array], CallingConvention.cutile_python_v1())
for gpu in ("sm_80", "sm_90", "sm_120"):
    export_kernel(double, [signature], cubin := io.BytesIO(), gpu_code=gpu, output_format="cubin")
    assert cubin.getvalue().startswith(b"\x7fELF"), gpu
