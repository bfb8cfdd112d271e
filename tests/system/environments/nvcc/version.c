/* For the C compiler alone. */
#include <cuda_runtime.h>
#include <stdio.h>

int main(void) {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  printf("runtime %d, compiled with %d\n", version, CUDART_VERSION);
  return version != CUDART_VERSION;
}
