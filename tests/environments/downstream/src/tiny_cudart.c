/* A Python module that asks the CUDA runtime what it is. Both calls work on a machine without a GPU. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cuda_runtime_api.h>

/* (version of the runtime that was loaded, version of the runtime that this was compiled with), as 1000 * major + 10 * minor */
static PyObject *versions(PyObject *self, PyObject *nothing) {
    int loaded = 0;
    cudaError_t status = cudaRuntimeGetVersion(&loaded);
    if (status != cudaSuccess) {
        PyErr_SetString(PyExc_RuntimeError, cudaGetErrorString(status));
        return NULL;
    }
    return Py_BuildValue("(ii)", loaded, CUDART_VERSION);
}

static PyMethodDef methods[] = {
    {"versions", versions, METH_NOARGS, "The CUDA runtime's version: loaded, compiled with."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tiny_cudart", NULL, -1, methods};

PyMODINIT_FUNC PyInit_tiny_cudart(void) { return PyModule_Create(&module); }
