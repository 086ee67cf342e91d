# shellcheck shell=bash disable=SC2034
# The wheels that deploy/cuda_toolkit.sh makes a CUDA Toolkit from: requirement,
# SHA-256 and, where only a part is wanted, its folders. Sourced.
FOLIO_CUDA_MINIMUM=12.4
FOLIO_WHEELS_toolkit=(
  "nvidia-cuda-nvcc==13.0.88 56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03"
  "nvidia-cuda-crt==13.0.88 2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"
  "nvidia-nvvm==13.0.88 c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0"
  "nvidia-cuda-runtime==13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"
  "nvidia-cuda-cccl==13.0.85 e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649"
  # The oldest there is on its own; it reads what older compilers wrote.
  "nvidia-cuda-cuobjdump==13.2.51 95c69d3ddf0c2c1f535ec44c3433a66aeee19f588d9d22f73356e20b25f12b50"
  "nvidia-cublas==13.1.2.11 e1ad7b57879088bc79e31cc172891a64332f76ae733084d4aaaaa65499b9b3de"
  "nvidia-nccl-cu13==2.32.3 1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3"
)
FOLIO_WHEELS_cmake=(
  "cmake==4.2.3 8e91b381aaea3c47110583dccc52f4562333d1accdbb806939f953c16e74ec0a"
)
FOLIO_WHEELS_flashinfer=(
  "flashinfer-python==0.6.9 46d013119ecd039a5844c4847325b3571f99cdd8fd9e00839bf008c67b15811a flashinfer/data/include/ flashinfer/data/cutlass/include/"
)
FOLIO_WHEELS_sanitizer=(
  # The oldest that has all of its parts: those up to 13.4.57 start no program.
  "nvidia-cuda-sanitizer-api==13.5.25 5df2efbdf605a812c6bac07600dd3d801cb9d334a30376113a6f1e2bc0679f54 nvidia/cu13/compute-sanitizer/"
)
