@rem Has cl.exe and CMake find CCCL, which is not where they look, other build systems this toolkit and not the one that
@rem NVIDIA's installer wrote into CUDA_PATH, and a package build compile for every GPU that this nvcc knows. deactivate.bat
@rem takes it back. Stacked environments are told apart by CONDA_SHLVL; the mark is there also where nothing was set.
@if defined CUDA_NVCC_ACTIVE_%CONDA_SHLVL% goto :eof
@set "CUDA_NVCC_ACTIVE_%CONDA_SHLVL%=1"
@if defined INCLUDE set "CUDA_NVCC_OLD_%CONDA_SHLVL%_INCLUDE=%INCLUDE%"
@if defined CMAKE_PREFIX_PATH set "CUDA_NVCC_OLD_%CONDA_SHLVL%_CMAKE_PREFIX_PATH=%CMAKE_PREFIX_PATH%"
@if defined CUDA_PATH set "CUDA_NVCC_OLD_%CONDA_SHLVL%_CUDA_PATH=%CUDA_PATH%"
@if defined CUDA_HOME set "CUDA_NVCC_OLD_%CONDA_SHLVL%_CUDA_HOME=%CUDA_HOME%"
@set "CUDA_PATH=%CONDA_PREFIX%\Library"
@set "CUDA_HOME=%CUDA_PATH%"
@set "CUDA_NVCC_ROOT=%CUDA_PATH%"
@if "%CONDA_BUILD%"=="1" set "CUDA_NVCC_ROOT=%LIBRARY_PREFIX%"
@set "INCLUDE=%INCLUDE%;%CUDA_NVCC_ROOT%\include\targets\x64;%CUDA_NVCC_ROOT%\include\targets\x64\cccl"
@set "CMAKE_PREFIX_PATH=%CMAKE_PREFIX_PATH%;%CUDA_NVCC_ROOT%\lib\@machine@\cmake"
@set "CUDA_NVCC_ROOT="
@if "%CONDA_BUILD%"=="1" if not defined CUDAARCHS set "CUDA_NVCC_OWN_%CONDA_SHLVL%_CUDAARCHS=1" & set "CUDAARCHS=@cudaarchs@"
@if "%CONDA_BUILD%"=="1" if not defined NVCC_GENCODE set "CUDA_NVCC_OWN_%CONDA_SHLVL%_NVCC_GENCODE=1" & set "NVCC_GENCODE=@gencode@"
@where /q cl.exe
@if errorlevel 1 echo cuda-nvcc: nvcc needs a C++ compiler, and there is no cl.exe on PATH: install vs2022_@target_platform@ into this environment or the Build Tools of Visual Studio on this machine; then activate the environment again. 1>&2
@exit /b 0
