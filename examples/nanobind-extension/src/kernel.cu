#include "kernel.h"

__global__ void halfway(size_t n, const float *x, float *y) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] + y[i]) / 2;
}

cudaError_t mean(size_t n, const float *x, float *y) {
    float *d = nullptr;
    cudaError_t e = cudaMalloc(&d, 2 * n * sizeof(float));
    if (e == cudaSuccess) e = cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = cudaMemcpy(d + n, y, n * sizeof(float), cudaMemcpyHostToDevice);
    if (e == cudaSuccess) {
        halfway<<<unsigned((n + 255) / 256), 256>>>(n, d, d + n);
        e = cudaGetLastError();
    }
    if (e == cudaSuccess) e = cudaMemcpy(y, d + n, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d);
    return e;
}
