// A kernel with the headers of CCCL, which nvcc finds by itself.
#include <cuda/std/limits>
#include <cub/warp/warp_reduce.cuh>

__global__ void reduce(int *sum, int number) {
  using Reduce = cub::WarpReduce<int>;
  __shared__ Reduce::TempStorage storage;
  int total = Reduce(storage).Sum(number);
  if (threadIdx.x == 0) *sum = total < cuda::std::numeric_limits<int>::max() ? total : 0;
}
