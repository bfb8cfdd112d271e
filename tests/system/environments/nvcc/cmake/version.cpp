#include <cstdio>
#include <cuda_runtime.h>

int main() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  std::printf("runtime %d\n", version);
}
