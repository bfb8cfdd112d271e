// A Python module whose kernel is in kernel.cu. It can be imported, and asked for GPUs, on a machine that has none.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <stdexcept>
#include <string>

#include "kernel.h"

namespace nb = nanobind;
template <typename T> using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

static void blend(Vector<const float> x, Vector<float> y) {
    bool fits = x.size() == y.size() && x.size() > 0;
    check(fits ? mean(x.size(), x.data(), y.data()) : cudaErrorInvalidValue);
}

static int devices() {
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    // No GPU, no driver, or one that is too old: there is nothing to compute on, and nothing went wrong.
    if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver) return 0;
    check(e);
    return count;
}

static std::string runtime() {
    int version = 0;
    check(cudaRuntimeGetVersion(&version));
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

NB_MODULE(blend, m) {
    m.def("blend", &blend, nb::arg("x"), nb::arg("y"), "y becomes the mean of x and y, two vectors of 32-bit floats.");
    m.def("devices", &devices, "The number of GPUs that can be used; 0 without any.");
    m.def("runtime", &runtime, "The toolkit whose CUDA runtime is loaded.");
}
