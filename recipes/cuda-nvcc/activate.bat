@rem Has cl.exe find the headers of CCCL, which are below targets, and a package build compile for every GPU that this nvcc
@rem knows. deactivate.bat takes it back. Stacked environments are told apart by CONDA_SHLVL; the mark is there also where
@rem INCLUDE was not set.
@if defined CUDA_NVCC_ACTIVE_%CONDA_SHLVL% goto :eof
@set "CUDA_NVCC_ACTIVE_%CONDA_SHLVL%=1"
@if defined INCLUDE set "CUDA_NVCC_OLD_%CONDA_SHLVL%_INCLUDE=%INCLUDE%"
@set "CUDA_NVCC_ROOT=%CONDA_PREFIX%\Library\include"
@if "%CONDA_BUILD%"=="1" set "CUDA_NVCC_ROOT=%LIBRARY_INC%"
@set "INCLUDE=%INCLUDE%;%CUDA_NVCC_ROOT%\targets\x64;%CUDA_NVCC_ROOT%\targets\x64\cccl"
@set "CUDA_NVCC_ROOT="
@if "%CONDA_BUILD%"=="1" if not defined CUDAARCHS set "CUDA_NVCC_OWN_%CONDA_SHLVL%_CUDAARCHS=1" & set "CUDAARCHS=@cudaarchs@"
@if "%CONDA_BUILD%"=="1" if not defined NVCC_GENCODE set "CUDA_NVCC_OWN_%CONDA_SHLVL%_NVCC_GENCODE=1" & set "NVCC_GENCODE=@gencode@"
@where /q cl.exe
@if errorlevel 1 echo cuda-nvcc: nvcc needs a C++ compiler, and there is no cl.exe on PATH: install vs2022_@target_platform@ into this environment or the Build Tools of Visual Studio on this machine; then activate the environment again. 1>&2
@exit /b 0
