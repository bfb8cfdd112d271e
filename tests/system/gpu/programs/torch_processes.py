"""Runs inside an environment with PyTorch: a process for each GPU.

NCCL sums, gathers and trains over all of them, with whole models and with sharded ones, and each
GPU copies to the next. Prints one JSON object: differences (0 is equal), whether the next GPU can
be reached directly, and the bandwidth of an all-reduce in GB/s as NCCL's tests count it.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

MEGABYTES = 256


def difference(found, wanted):
    return float((found.cpu().double() - wanted.double()).abs().max())


def bandwidth(ranks):
    x = torch.ones(MEGABYTES << 18, device="cuda")
    times = []
    for _ in range(9):
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return round(2 * (ranks - 1) / ranks * x.nbytes / sorted(times)[4] / 1e9, 1)


def trained(rank, ranks):
    """Difference of a weight after one step of DistributedDataParallel and after the same step on
    the whole batch.
    """
    torch.manual_seed(7)
    model, batch = torch.nn.Linear(32, 1), torch.randn(8 * ranks, 32)
    weight = model.weight.detach().clone()
    wanted = weight - 0.1 * batch.mean(dim=0)
    parallel = torch.nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[rank])
    parallel(batch[8 * rank : 8 * rank + 8].cuda()).mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return difference(model.weight.detach(), wanted)


def sharded(rank, ranks):
    """The same for a model whose parameters are split over the GPUs (FSDP)."""
    torch.manual_seed(7)
    model, batch = torch.nn.Linear(32, 8), torch.randn(8 * ranks, 32)
    weight = model.weight.detach().clone()
    wanted = weight - 0.1 * batch.mean(dim=0) / 8
    model = fully_shard(model.cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(batch[8 * rank : 8 * rank + 8].cuda()).mean().backward()
    optimizer.step()
    return difference(model.weight.full_tensor().detach(), wanted)


def work(rank, ranks, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank)
    )
    mine = torch.arange(1000.0, device="cuda") + rank
    everything = [torch.arange(1000.0) + each for each in range(ranks)]
    summed, gathered = mine.clone(), [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_reduce(summed)
    dist.all_gather(gathered, mine)
    part = torch.empty(8, device="cuda")
    dist.reduce_scatter_tensor(part, torch.ones(8 * ranks, device="cuda"))
    found = {
        "all_reduce": difference(summed, torch.stack(everything).sum(0)),
        "all_gather": difference(torch.stack(gathered), torch.stack(everything)),
        "reduce_scatter": difference(part, torch.full((8,), float(ranks))),
        "a step of DistributedDataParallel": trained(rank, ranks),
        "a step of FSDP": sharded(rank, ranks),
    }
    beside = (rank + 1) % ranks
    if ranks > 1:
        found["a copy to the next GPU"] = difference(mine.to(f"cuda:{beside}"), mine.cpu())
    direct = torch.cuda.can_device_access_peer(rank, beside) if ranks > 1 else None
    speed = bandwidth(ranks) if ranks > 1 else None
    dist.destroy_process_group()
    results[rank] = {
        "differences": found,
        "all_reduce, GB/s": speed,
        "direct copies to the next GPU": direct,
    }


if __name__ == "__main__":
    ranks = torch.cuda.device_count()
    with torch.multiprocessing.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(work, (ranks, results), nprocs=ranks)
        print(
            json.dumps({"gpus": ranks, "nccl": torch.cuda.nccl.version(), "ranks": dict(results)})
        )
