"""Runs inside an environment with PyTorch: what a GPU computes is held against the CPU, then a
transformer is trained.

Prints one JSON object: versions, relative differences (0 is equal), losses of some steps eager and
compiled, median times in milliseconds, and the libraries of CUDA that are loaded. Imports nothing
of this project.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time

_began = time.perf_counter()
import torch  # noqa: E402  # its time is a result

IMPORTED = time.perf_counter() - _began
STEPS = 20
BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 16, 256, 512, 8, 4, 1000


def difference(found, wanted):
    found, wanted = (value.detach().cpu().to(torch.complex128) for value in (found, wanted))
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))


def programs():
    """Name -> a function, and what goes in."""
    torch.manual_seed(7)
    square = torch.randn(512, 512)
    image, kernel = torch.randn(8, 16, 64, 64), torch.randn(32, 16, 3, 3)
    long = torch.randn(1 << 18)
    small = square[:64, :64].double()
    sparse = (square * (square > 1)).to_sparse_csr()
    query = torch.randn(4, 8, 128, 64)
    return {
        "elementwise functions": (
            lambda x: torch.sin(x) * torch.exp(-x * x) + torch.tanh(x),
            (square,),
        ),
        "matrix product": (torch.matmul, (square, square)),
        "convolution": (lambda x, k: torch.nn.functional.conv2d(x, k, padding=1), (image, kernel)),
        "attention": (torch.nn.functional.scaled_dot_product_attention, (query, query, query)),
        "fft": (torch.fft.fft, (long,)),
        "eigenvalues of a symmetric matrix": (lambda x: torch.linalg.eigvalsh(x + x.T), (small,)),
        "singular values": (torch.linalg.svdvals, (small,)),
        "solve": (lambda x: torch.linalg.solve(x @ x.T + 9 * torch.eye(64).to(x), x), (small,)),
        "sparse product": (torch.matmul, (sparse, square)),
        "sort": (lambda x: torch.sort(x).values, (long,)),
        "a function that NVRTC compiles": (torch.special.bessel_j1, (square,)),
    }


class Model(torch.nn.Module):
    """A small transformer that says which word comes next."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.next = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, text):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(
            text.shape[1], device=text.device
        )
        return self.next(self.layers(self.words(text), mask=mask, is_causal=True))


def trained(compiled):
    """Losses of some steps in bfloat16, milliseconds of the first step and of the median one."""
    torch.manual_seed(7)
    model = Model().cuda()
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(0, WORDS, (BATCH, LENGTH + 1)).cuda()
    losses, times = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = forward(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(found.flatten(0, 1).float(), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        times.append(1000 * (time.perf_counter() - start))
    return {
        "losses": losses,
        "first step": round(times[0]),
        "step": round(statistics.median(times[3:]), 2),
    }


def replayed():
    """Difference of what a CUDA graph computes when it runs again with other numbers."""
    x = torch.ones(1000, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (x @ x).item()  # cuBLAS gets its memory before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2).sum()
    x.copy_(torch.arange(1000.0))
    graph.replay()
    return difference(y, torch.tensor(999.0 * 1000))


def main():
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # an isolated Python leaves it out
    from loaded import loaded

    found = {
        "torch": torch.__version__,
        "toolkit": torch.version.cuda,
        "import": round(IMPORTED, 3),
    }
    found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if found["gpus"]:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        found["differences"] = {}
        for name, (function, arguments) in programs().items():
            computed = function(*(each.cuda() for each in arguments))
            assert computed.is_cuda
            found["differences"][name] = difference(computed, function(*arguments))
        found["differences"]["replay of a CUDA graph"] = replayed()
        found["eager"], found["compiled"] = trained(compiled=False), trained(compiled=True)
        import triton.knobs

        ptxas = triton.knobs.nvidia.ptxas.path
        printed = subprocess.run(
            [ptxas, "--version"], capture_output=True, text=True, check=True
        ).stdout
        found["ptxas"] = re.search(r"release ([\d.]+)", printed)[1]
        found["cudnn"], found["nccl"] = torch.backends.cudnn.version(), torch.cuda.nccl.version()
    found["loaded"] = loaded("cu|nv|nccl|torch|c10|gomp")
    print(json.dumps(found))


main()
