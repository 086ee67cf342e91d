# The package folio-worker-cuda. Its program links cuBLASLt and NCCL, and has the CUDA runtime and FlashInfer's kernels
# inside. The driver (libcuda.so.1) is loaded when it starts, and comes with the machine's driver package.
#
# Debian has no CUDA 13, so cuBLASLt and NCCL come either from the packages of NVIDIA's archive, which the package then
# depends on, or with FOLIO_BUNDLE_CUDA in the package itself, under /usr/lib/folio-worker-cuda.
folio_package(folio-worker-cuda worker)
folio_worker(folio-worker-cuda)
foreach(unit folio-worker.service folio-worker@.service folio-manager.service)
  system_file(folio-worker-cuda /usr/lib/systemd/system/${unit}.d folio-cuda.conf ${units}/cuda.conf)
endforeach()

# Gives the name by which the loader looks for a library.
function(soname_of library result)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^\n]+)" found "${said}")
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

# Also where they are bundled by hand, as an image made of NVIDIA's wheels does.
set_target_properties(folio-worker PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/folio-worker-cuda")
# dpkg-shlibdeps must find the libraries, though no package of this machine may have them.
cmake_path(GET CUDA_cublasLt_LIBRARY PARENT_PATH cublas_folder)
cmake_path(GET FOLIO_NCCL_LIBRARY PARENT_PATH nccl_folder)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${cublas_folder} ${nccl_folder})
set(cuda_depends "")
if(FOLIO_BUNDLE_CUDA)
  foreach(library ${CUDA_cublasLt_LIBRARY} ${FOLIO_NCCL_LIBRARY})
    soname_of(${library} soname)
    file(REAL_PATH ${library} real)
    system_file(folio-worker-cuda /usr/lib/folio-worker-cuda ${soname} ${real})
  endforeach()
else()
  set(toolkit ${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR})
  set(cuda_depends ", libcublas-${toolkit}, libnccl2")
endif()
