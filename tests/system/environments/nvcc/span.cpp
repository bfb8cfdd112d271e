// For the C++ compiler alone, with a header of CCCL.
#include <cstdio>
#include <cuda/std/span>
#include <cuda_runtime.h>

int main() {
  int version[] = {0};
  cuda::std::span<int> one(version);
  cudaRuntimeGetVersion(one.data());
  std::printf("runtime %d\n", one[0]);
}
