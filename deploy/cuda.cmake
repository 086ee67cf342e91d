# The CUDA side of the build: language, architectures, libraries. Included when FOLIO_CUDA is ON.
# deploy/build.sh sets what is below from deploy/cuda_toolkit.sh.
set(FOLIO_CUDA_ARCHS "" CACHE STRING
    "GPU architectures as CMake writes them. Empty: 80, 90a, 100 where nvcc knows it, and PTX of 90 for newer ones")
set(FOLIO_NCCL_ROOT "" CACHE PATH "Where NCCL's include/ and lib/ are")
set(FOLIO_FLASHINFER_INCLUDE "" CACHE PATH "FlashInfer's headers")
set(FOLIO_CUTLASS_INCLUDE "" CACHE PATH "CUTLASS's headers, as FlashInfer's wheel has them")
set(FOLIO_CUOBJDUMP "" CACHE FILEPATH "cuobjdump, for the table of resources")

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "FOLIO_CUDA is ON and there is no nvcc: configure with deploy/build.sh, which finds or "
                      "makes a CUDA Toolkit, or give CMAKE_CUDA_COMPILER and CUDAToolkit_ROOT")
endif()
if(FOLIO_CUDA_ARCHS)
  set(CMAKE_CUDA_ARCHITECTURES ${FOLIO_CUDA_ARCHS})
else()
  # GPUs of 9.0 and later never run code that was compiled for less, because kernels that overlap must wait for each
  # other (kernels/cuda/device/overlap.cuh), and 8.0 has no instruction for it.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-virtual 90a-real)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  if(known MATCHES "compute_100\n")
    list(APPEND CMAKE_CUDA_ARCHITECTURES 100-real)
  endif()
endif()
message(STATUS "GPU architectures: ${CMAKE_CUDA_ARCHITECTURES}")
enable_language(CUDA)
find_package(CUDAToolkit 12.4 REQUIRED)

find_path(FOLIO_NCCL_INCLUDE nccl.h HINTS ${FOLIO_NCCL_ROOT}/include REQUIRED)
find_library(FOLIO_NCCL_LIBRARY nccl HINTS ${FOLIO_NCCL_ROOT}/lib REQUIRED)
add_library(folio_nccl INTERFACE)
target_include_directories(folio_nccl SYSTEM INTERFACE ${FOLIO_NCCL_INCLUDE})
target_link_libraries(folio_nccl INTERFACE ${FOLIO_NCCL_LIBRARY} CUDA::cudart_static)

# Our own device code. Host warnings are errors as everywhere, the device compiler's as well. Line
# numbers cost nothing at run time and let profilers and the sanitizer name a line.
add_library(folio_cuda_build INTERFACE)
target_link_libraries(folio_cuda_build INTERFACE folio_build CUDA::cudart_static)
target_compile_options(folio_cuda_build INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo --expt-relaxed-constexpr --Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Werror,-Wno-unused-parameter>)
