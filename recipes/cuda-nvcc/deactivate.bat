@rem Takes back what activate.bat did.
@if not defined CUDA_NVCC_ACTIVE_%CONDA_SHLVL% goto :eof
@set "INCLUDE="
@if defined CUDA_NVCC_OLD_%CONDA_SHLVL%_INCLUDE call set "INCLUDE=%%CUDA_NVCC_OLD_%CONDA_SHLVL%_INCLUDE%%"
@set "CUDA_NVCC_OLD_%CONDA_SHLVL%_INCLUDE="
@set "CUDA_NVCC_ACTIVE_%CONDA_SHLVL%="
