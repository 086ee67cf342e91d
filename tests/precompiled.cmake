# Precompiled headers for the tests, because most of a test's compile time goes into those of gRPC and GoogleTest.
# They hold other people's headers and those of our protos. Lint compiles the tests without them
# (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON), so a missing #include is still found.
#
# folio_precompile(TARGET HEADERS): the target's files begin with one set of headers, already parsed. HEADERS is
#   folio_grpc_headers   gRPC, Protobuf and our protos, optimised as the build is
#   folio_test_headers   the same and GoogleTest. The target itself is compiled with -O1
#   folio_check_headers  the same as the last and not optimised, for files that only check
# GCC takes such a set only with the same code model, macros and kind of optimisation, hence -fPIC, -pthread and -O0.

function(folio_make_headers name)
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "// Compiled only for its precompiled headers.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE folio_build folio_proto)
  target_compile_options(${name} PRIVATE -fPIC -pthread)
  set(headers <grpcpp/grpcpp.h> "<folio/v1/kv_manager.grpc.pb.h>" "<folio/v1/admin.grpc.pb.h>"
      "<folio/v1/inference.grpc.pb.h>" <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
      <absl/synchronization/mutex.h> <absl/container/flat_hash_map.h> <functional> <map> <random> <thread>)
  if(NOT name STREQUAL "folio_grpc_headers")
    target_link_libraries(${name} PRIVATE GTest::gmock)
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  if(name STREQUAL "folio_check_headers")
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

folio_make_headers(folio_grpc_headers)
folio_make_headers(folio_test_headers)
folio_make_headers(folio_check_headers)

function(folio_precompile target headers)
  target_compile_options(${target} PRIVATE -fPIC -pthread $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # asked for by ccache
  if(headers STREQUAL "folio_check_headers")
    target_compile_options(${target} PRIVATE -O0)
  elseif(headers STREQUAL "folio_test_headers")
    target_compile_options(${target} PRIVATE -O1)
  endif()
  # The sets include the headers that protoc makes.
  add_dependencies(${target} folio_proto)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()
