/* In the place of FFTW's header: the names of its plans that jax_finufft offers in Python, which DUCC0 does not read. */
#define FFTW_MEASURE 0U
#define FFTW_EXHAUSTIVE (1U << 3)
#define FFTW_PATIENT (1U << 5)
#define FFTW_ESTIMATE (1U << 6)
#define FFTW_WISDOM_ONLY (1U << 21)
