// A library whose kernel is compiled when it is called. Programs with it start on a machine that has no GPU.
#include "sum.h"
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvrtc.h>
#include <stdexcept>
#include <stdio.h>
#include <string>

static const char *source = R"(
extern "C" __global__ void sum(size_t n, const double *x, double *result) {
    double part = 0;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) part += x[i];
    atomicAdd(result, part);
})";

static void check(bool good, const std::string &what) {
    if (!good) throw std::runtime_error(what);
}

static void check(cudaError_t e) { check(e == cudaSuccess, cudaGetErrorString(e)); }

static void check(nvrtcResult e) { check(e == NVRTC_SUCCESS, nvrtcGetErrorString(e)); }

// A function of the driver's library: it is no package, so nothing is linked with it.
template <class Function, class... Arguments> static void of_driver(const char *name, Arguments... arguments) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    check(found, std::string("the driver has no ") + name);
    CUresult e = Function(found)(arguments...);
    check(e == CUDA_SUCCESS, std::string(name) + ": error " + std::to_string(e) + " of the driver");
}

// Machine code for the GPU, which every driver of the CUDA major loads. PTX would need one as new as the toolkit.
static std::string compile() {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    std::string target = "-arch=sm_" + std::to_string(major) + std::to_string(minor);
    const char *options[] = {target.c_str()};
    nvrtcProgram program;
    check(nvrtcCreateProgram(&program, source, "sum.cu", 0, nullptr, nullptr));
    check(nvrtcCompileProgram(program, 1, options));
    size_t size = 0;
    check(nvrtcGetCUBINSize(program, &size));
    std::string code(size, '\0');
    check(nvrtcGetCUBIN(program, &code[0]));
    check(nvrtcDestroyProgram(&program));
    return code;
}

static double run(size_t n, const double *x) {
    check(cudaSetDevice(0));
    double *d = nullptr, result = 0; // the result lies behind the numbers
    check(cudaMalloc(&d, (n + 1) * sizeof(double))); // the runtime's context is current from here on
    check(cudaMemcpy(d, x, n * sizeof(double), cudaMemcpyHostToDevice));
    check(cudaMemset(d + n, 0, sizeof(double)));
    std::string code = compile();
    CUmodule module;
    CUfunction kernel;
    of_driver<decltype(&cuModuleLoadData)>("cuModuleLoadData", &module, code.data());
    of_driver<decltype(&cuModuleGetFunction)>("cuModuleGetFunction", &kernel, module, "sum");
    double *behind = d + n;
    void *arguments[] = {&n, &d, &behind};
    of_driver<decltype(&cuLaunchKernel)>(
        "cuLaunchKernel", kernel, 1u, 1u, 1u, 256u, 1u, 1u, 0u, CUstream(nullptr), arguments, (void **)nullptr);
    check(cudaMemcpy(&result, behind, sizeof(double), cudaMemcpyDeviceToHost));
    check(cudaFree(d));
    return result;
}

double sum_on_gpu(size_t n, const double *x, char *error, size_t size) {
    if (size) *error = 0;
    try {
        return run(n, x);
    } catch (const std::exception &e) {
        snprintf(error, size, "%s", e.what());
        return 0;
    }
}

int sum_toolkit(void) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return version;
}
