// Says what the runtime answers, and adds one on each GPU there is.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int *sum, int number) {
  atomicAdd(sum, number);
}

int main() {
  int count = -1, version = 0, sum = 0, *there = nullptr;
  cudaError_t answer = cudaGetDeviceCount(&count);
  cudaRuntimeGetVersion(&version);
  std::printf("runtime %d\n", version);
  if (answer == cudaErrorNoDevice || answer == cudaErrorInsufficientDriver) {
    std::printf("no device: %s\n", cudaGetErrorName(answer));
    return 0;
  }
  if (answer != cudaSuccess || cudaMalloc(&there, sizeof sum) != cudaSuccess || cudaMemset(there, 0, sizeof sum) != cudaSuccess) return 1;
  add<<<1, 32>>>(there, 2);
  if (cudaMemcpy(&sum, there, sizeof sum, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
  std::printf("sum %d\n", sum);
  return sum == 64 ? 0 : 3;
}
