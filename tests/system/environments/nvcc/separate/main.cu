// Calls a device function of another file, and launches a kernel from a kernel: that needs cudadevrt.
#include <cstdio>
#include <cuda_runtime.h>

extern __device__ int twice(int number);
__global__ void child(int *out) { *out = twice(21); }
__global__ void parent(int *out) { child<<<1, 1>>>(out); }

int main() {
  int count = 0;
  std::printf("%s\n", cudaGetErrorName(cudaGetDeviceCount(&count)));
  if (count > 0) parent<<<1, 1>>>(nullptr);
  return 0;
}
