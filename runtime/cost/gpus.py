"""GPUs as public data sheets describe them: peaks. What is achieved, the cost model says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from radixcache.errors import UnknownName
from runtime.cost.dtypes import dtype_bytes

GB: Final = 10**9
TFLOPS: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU.

    Attributes:
        name: Key in `GPUS`.
        memory_bytes: Data sheet gigabytes times 10**9. Drivers often report a few per cent more,
            so a pool derived from this is on the safe side.
        bandwidth: Memory bandwidth, bytes/s.
        peak_flops: Dense peak by dtype, FLOP/s. Where a sheet prints figures with 2:4 sparsity,
            half of them.
        link_bandwidth: Bytes/s that one GPU can send to its tensor-parallel peers, one direction.
        source: The data sheet.
    """

    name: str
    memory_bytes: int
    bandwidth: int
    peak_flops: Mapping[str, int]
    link_bandwidth: int
    source: str

    def peak(self, dtype: str) -> int:
        """Dense peak for matrix products in `dtype`, FLOP/s.

        Raises:
            UnknownName: No such dtype, or this GPU has no units for it.
        """
        dtype_bytes(dtype)
        if dtype not in self.peak_flops:
            raise UnknownName(f"compute dtype of {self.name}", dtype, self.peak_flops)
        return self.peak_flops[dtype]


def _peaks(bf16_tflops: float, fp8_tflops: float | None = None) -> dict[str, int]:
    peaks = {"bf16": round(bf16_tflops * TFLOPS), "fp16": round(bf16_tflops * TFLOPS)}
    if fp8_tflops is not None:
        peaks["fp8"] = round(fp8_tflops * TFLOPS)
    return peaks


_ALL = (
    Gpu(
        name="A100-40GB",
        memory_bytes=40 * GB,
        bandwidth=1555 * GB,
        peak_flops=_peaks(312),
        link_bandwidth=300 * GB,
        source="NVIDIA A100 Tensor Core GPU data sheet, SXM4 40 GB (NVLink 600 GB/s both ways)",
    ),
    Gpu(
        name="A100-80GB",
        memory_bytes=80 * GB,
        bandwidth=2039 * GB,
        peak_flops=_peaks(312),
        link_bandwidth=300 * GB,
        source="NVIDIA A100 Tensor Core GPU data sheet, SXM4 80 GB (NVLink 600 GB/s both ways)",
    ),
    Gpu(
        name="H100-SXM",
        memory_bytes=80 * GB,
        bandwidth=3350 * GB,
        peak_flops=_peaks(989.5, 1979),
        link_bandwidth=450 * GB,
        source="NVIDIA H100 Tensor Core GPU data sheet, SXM5 (1,979/3,958 TFLOPS with sparsity, "
        "halved; NVLink 900 GB/s both ways)",
    ),
    Gpu(
        name="H100-PCIe",
        memory_bytes=80 * GB,
        bandwidth=2000 * GB,
        peak_flops=_peaks(756.5, 1513),
        link_bandwidth=64 * GB,
        source="NVIDIA H100 Tensor Core GPU data sheet, PCIe (1,513/3,026 TFLOPS with sparsity, "
        "halved; PCIe Gen5 128 GB/s both ways; the NVLink bridge joins pairs only, left out)",
    ),
    Gpu(
        name="H200",
        memory_bytes=141 * GB,
        bandwidth=4800 * GB,
        peak_flops=_peaks(989.5, 1979),
        link_bandwidth=450 * GB,
        source="NVIDIA H200 Tensor Core GPU data sheet, SXM (1,979/3,958 TFLOPS with sparsity, "
        "halved; NVLink 900 GB/s both ways)",
    ),
    Gpu(
        name="B200",
        memory_bytes=180 * GB,
        bandwidth=8000 * GB,
        peak_flops=_peaks(2250, 4500),
        link_bandwidth=900 * GB,
        source="NVIDIA DGX B200 data sheet, an eighth of it (1,440 GB, 64 TB/s, FP8 72 PFLOPS with "
        "sparsity, halved; NVLink 1.8 TB/s both ways)",
    ),
    Gpu(
        name="L40S",
        memory_bytes=48 * GB,
        bandwidth=864 * GB,
        peak_flops=_peaks(362, 733),
        link_bandwidth=32 * GB,
        source="NVIDIA L40S data sheet (PCIe Gen4 x16, 64 GB/s both ways)",
    ),
    Gpu(
        name="L4",
        memory_bytes=24 * GB,
        bandwidth=300 * GB,
        peak_flops=_peaks(121, 242.5),
        link_bandwidth=32 * GB,
        source="NVIDIA L4 data sheet (242/485 TFLOPS with sparsity, halved; PCIe Gen4 x16, 64 GB/s "
        "both ways)",
    ),
)

GPUS: Final[Mapping[str, Gpu]] = {gpu.name: gpu for gpu in _ALL}


def find_gpu(name: str) -> Gpu:
    """The GPU of that name.

    Raises:
        UnknownName: None has it; the message offers the nearest names.

    Example:
        >>> find_gpu("H100-SXM").memory_bytes
        80000000000
    """
    if name not in GPUS:
        raise UnknownName("GPU", name, GPUS)
    return GPUS[name]
