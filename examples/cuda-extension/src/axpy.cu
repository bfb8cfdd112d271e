// A Python module with one kernel. It can be imported, and asked for GPUs, on a machine that has none.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cuda_runtime.h>

__global__ void add(size_t n, float a, const float *x, float *y) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// On the GPU, for arrays of the CPU.
static cudaError_t run(size_t n, float a, const float *x, float *y) {
    float *d = nullptr;
    cudaError_t e = cudaMalloc(&d, 2 * n * sizeof(float));
    if (e == cudaSuccess) e = cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = cudaMemcpy(d + n, y, n * sizeof(float), cudaMemcpyHostToDevice);
    if (e == cudaSuccess) {
        add<<<unsigned((n + 255) / 256), 256>>>(n, a, d, d + n);
        e = cudaGetLastError();
    }
    if (e == cudaSuccess) e = cudaMemcpy(y, d + n, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d);
    return e;
}

static PyObject *axpy(PyObject *, PyObject *args) {
    float a;
    Py_buffer x, y;
    if (!PyArg_ParseTuple(args, "fy*w*", &a, &x, &y)) return nullptr;
    bool fits = x.len == y.len && x.len > 0 && x.len % sizeof(float) == 0;
    cudaError_t e = fits ? run(x.len / sizeof(float), a, (float *)x.buf, (float *)y.buf) : cudaErrorInvalidValue;
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    if (e != cudaSuccess) return PyErr_Format(PyExc_RuntimeError, "%s", cudaGetErrorString(e));
    Py_RETURN_NONE;
}

static PyObject *devices(PyObject *, PyObject *) {
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    // No GPU, no driver, or one that is too old: there is nothing to compute on, and nothing went wrong.
    if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver) count = 0;
    else if (e != cudaSuccess) return PyErr_Format(PyExc_RuntimeError, "%s", cudaGetErrorString(e));
    return PyLong_FromLong(count);
}

static PyObject *runtime(PyObject *, PyObject *) {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return PyUnicode_FromFormat("%d.%d", version / 1000, version % 1000 / 10);
}

static PyMethodDef methods[] = {
    {"axpy", axpy, METH_VARARGS, "axpy(a, x, y): y += a * x, for two buffers of 32-bit floats."},
    {"devices", devices, METH_NOARGS, "The number of GPUs that can be used; 0 without any."},
    {"runtime", runtime, METH_NOARGS, "The toolkit whose CUDA runtime is loaded."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "axpy", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_axpy() { return PyModule_Create(&module); }
