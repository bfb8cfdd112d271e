// A Python module whose kernel is compiled when it is first called. It can be imported on a machine that has no GPU.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvrtc.h>
#include <stdexcept>
#include <string>

static const char *source = R"(
extern "C" __global__ void scale(size_t n, float a, float *x) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
})";

static void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

static void check(nvrtcResult e) {
    if (e != NVRTC_SUCCESS) throw std::runtime_error(nvrtcGetErrorString(e));
}

static void check(CUresult e) {
    if (e != CUDA_SUCCESS) throw std::runtime_error("error " + std::to_string(e) + " of the driver");
}

// A function of the driver's library: it is no package, so nothing is linked with it.
template <class Function> static Function of_driver(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    if (!found) throw std::runtime_error(std::string("the driver has no ") + name);
    return Function(found);
}

// Machine code for the GPU, which every driver of the CUDA major loads. PTX would need one as new as the toolkit.
static std::string compile(int device) {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    std::string target = "-arch=sm_" + std::to_string(major) + std::to_string(minor);
    const char *options[] = {target.c_str()};
    nvrtcProgram program;
    check(nvrtcCreateProgram(&program, source, "scale.cu", 0, nullptr, nullptr));
    check(nvrtcCompileProgram(program, 1, options));
    size_t size = 0;
    check(nvrtcGetCUBINSize(program, &size));
    std::string code(size, '\0');
    check(nvrtcGetCUBIN(program, &code[0]));
    check(nvrtcDestroyProgram(&program));
    return code;
}

// On the first GPU, for an array of the CPU.
static void run(size_t n, float a, float *x) {
    check(cudaSetDevice(0));
    float *d = nullptr;
    check(cudaMalloc(&d, n * sizeof(float))); // the runtime's context is current from here on
    static CUfunction kernel = [] {
        std::string code = compile(0);
        CUmodule module;
        check(of_driver<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, code.data()));
        CUfunction found;
        check(of_driver<decltype(&cuModuleGetFunction)>("cuModuleGetFunction")(&found, module, "scale"));
        return found;
    }();
    check(cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice));
    void *arguments[] = {&n, &a, &d};
    unsigned blocks = unsigned((n + 255) / 256);
    check(of_driver<decltype(&cuLaunchKernel)>("cuLaunchKernel")(
        kernel, blocks, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
    check(cudaMemcpy(x, d, n * sizeof(float), cudaMemcpyDeviceToHost));
    check(cudaFree(d));
}

static PyObject *scale(PyObject *, PyObject *args) {
    float a;
    Py_buffer x;
    if (!PyArg_ParseTuple(args, "fw*", &a, &x)) return nullptr;
    std::string error;
    try {
        if (x.len < Py_ssize_t(sizeof(float))) throw std::runtime_error("there is no number");
        run(x.len / sizeof(float), a, (float *)x.buf);
    } catch (const std::exception &e) {
        error = e.what();
    }
    PyBuffer_Release(&x);
    if (!error.empty()) return PyErr_Format(PyExc_RuntimeError, "%s", error.c_str());
    Py_RETURN_NONE;
}

static PyObject *devices(PyObject *, PyObject *) {
    int count = 0;
    // No GPU, no driver, or one that is too old: there is nothing to compute on, and nothing went wrong.
    return PyLong_FromLong(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
}

static PyObject *versions(PyObject *, PyObject *) {
    int runtime = 0, major = 0, minor = 0;
    cudaRuntimeGetVersion(&runtime);
    nvrtcVersion(&major, &minor);
    return PyUnicode_FromFormat("runtime %d.%d, NVRTC %d.%d", runtime / 1000, runtime % 1000 / 10, major, minor);
}

static PyMethodDef methods[] = {
    {"scale", scale, METH_VARARGS, "scale(a, x): x *= a, for a buffer of 32-bit floats."},
    {"devices", devices, METH_NOARGS, "The number of GPUs that can be used; 0 without any."},
    {"versions", versions, METH_NOARGS, "The toolkit whose libraries are loaded."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "scale", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_scale() { return PyModule_Create(&module); }
