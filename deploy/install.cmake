# `cmake --install` puts four things under its prefix:
#   bin/                      folio-manager, folio-worker, folio-gateway, folioctl    (components manager, worker, gateway and cli)
#   lib/, include/folio/      the C++ SDK, with a CMake package: find_package(folio) (component sdk)
#   share/folio/proto/        the protocol, for clients in other languages           (component sdk)
#   share/man/man1/, share/bash-completion/, share/zsh/, share/fish/
#                             manual pages and completions of folioctl               (component cli)
# deploy/packages.cmake adds what only the Debian packages have.
# Includes are written from the root of the repository ("services/client/client.h"), so the headers have a folder of
# their own, which the target folio::client adds to the include path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(FOLIO_SDK_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/folio)
set(FOLIO_SDK_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/folio)

install(TARGETS folio-manager COMPONENT manager)
install(TARGETS folio-worker COMPONENT worker)
install(TARGETS folio-gateway COMPONENT gateway)
install(TARGETS folioctl COMPONENT cli)

set(documents ${CMAKE_BINARY_DIR}/gen/folioctl)
install(DIRECTORY ${documents}/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT cli)
install(FILES ${documents}/folioctl DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT cli)
install(FILES ${documents}/_folioctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT cli)
install(FILES ${documents}/folioctl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT cli)

# The SDK's library and the ones that it links. Only folio::client is for users; folio::proto has the messages and
# the stubs alone.
set(sdk folio_client folio_proto folio_grpc_status folio_text folio_tls folio_base folio_build)
foreach(target IN LISTS sdk)
  string(REPLACE "folio_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
target_compile_features(folio_build INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)  # the headers are C++20
install(TARGETS ${sdk} EXPORT folio-targets COMPONENT sdk INCLUDES DESTINATION ${FOLIO_SDK_INCLUDE})
install(EXPORT folio-targets NAMESPACE folio:: DESTINATION ${FOLIO_SDK_CMAKE} COMPONENT sdk)

foreach(header admin_client call client inputs kept_positions message_json policy_text read_gate steering streams worker_calls)
  install(FILES ${CMAKE_SOURCE_DIR}/services/client/${header}.h
          DESTINATION ${FOLIO_SDK_INCLUDE}/services/client COMPONENT sdk)
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/services/base/steady_time.h
        DESTINATION ${FOLIO_SDK_INCLUDE}/services/base COMPONENT sdk)
foreach(name types inference admin)
  install(FILES ${CMAKE_BINARY_DIR}/gen/folio/v1/${name}.pb.h ${CMAKE_BINARY_DIR}/gen/folio/v1/${name}.grpc.pb.h
          DESTINATION ${FOLIO_SDK_INCLUDE}/folio/v1 COMPONENT sdk)
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/folio DESTINATION ${CMAKE_INSTALL_DATADIR}/folio/proto
        COMPONENT sdk FILES_MATCHING PATTERN "*.proto")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/services/client/example.cc
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT sdk)

configure_package_config_file(${CMAKE_SOURCE_DIR}/deploy/folio-config.cmake.in ${CMAKE_BINARY_DIR}/folio-config.cmake
                              INSTALL_DESTINATION ${FOLIO_SDK_CMAKE} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the SDK's interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/folio-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/folio-config.cmake ${CMAKE_BINARY_DIR}/folio-config-version.cmake
        DESTINATION ${FOLIO_SDK_CMAKE} COMPONENT sdk)
