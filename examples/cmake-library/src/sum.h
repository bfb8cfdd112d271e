#pragma once
#include <stddef.h>

/* The sum of n numbers, on the first GPU; 0 and a sentence in error, of at most size bytes, where there is none. */
extern "C" double sum_on_gpu(size_t n, const double *x, char *error, size_t size);

/* The toolkit whose CUDA runtime is loaded, as 13000 for 13.0. */
extern "C" int sum_toolkit(void);
