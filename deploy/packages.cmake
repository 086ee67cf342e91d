# Debian packages by CPack, for deploy/package.sh:
#   folio-manager, folio-worker, folio-gateway, folioctl, libfolio-client-dev       or with FOLIO_CUDA
#   folio-worker-cuda                                                which takes the place of folio-worker
# A package is a group of two components: what `cmake --install` installs too, and a component of the package's own name
# with files outside the prefix. Those are left out of `cmake --install`, which must not write to /etc.
set(FOLIO_MAINTAINER "Folio maintainers <maintainers@folio.invalid>")
set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)
set(units ${CMAKE_SOURCE_DIR}/deploy/systemd)
set(made ${CMAKE_BINARY_DIR}/packages)  # files that are made while CMake configures
set(folio_packages "")
option(FOLIO_BUNDLE_CUDA "Put cuBLASLt and NCCL into the package folio-worker-cuda, instead of a dependency on theirs" OFF)

function(system_files package folder)
  install(FILES ${ARGN} DESTINATION ${folder} COMPONENT ${package} EXCLUDE_FROM_ALL)
endfunction()

# A file under a name of its own.
function(system_file package folder name source)
  install(FILES ${source} DESTINATION ${folder} RENAME ${name} COMPONENT ${package} EXCLUDE_FROM_ALL)
endfunction()

# Every package has these. The changelog comes when it is packed: deploy/debian/finish.cmake.
function(folio_package package component)
  system_file(${package} /usr/share/doc/${package} copyright ${debian}/copyright)
  if(EXISTS ${debian}/${package}.lintian-overrides)
    system_file(${package} /usr/share/lintian/overrides ${package} ${debian}/${package}.lintian-overrides)
  endif()
  set(folio_packages ${folio_packages} ${package} PARENT_SCOPE)
  set(FOLIO_COMPONENT_${package} ${component} PARENT_SCOPE)
endfunction()

# The maintainer scripts and the configuration of a daemon, whose files in deploy/debian begin with `role`.
function(folio_daemon package role)
  file(READ ${debian}/forget.sh forget)
  foreach(script postinst prerm postrm)
    configure_file(${debian}/${role}.${script} ${made}/${package}/${script} @ONLY FILE_PERMISSIONS
                   OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endforeach()
  set(conffiles /etc/folio/${role}.flags ${ARGN})
  list(JOIN conffiles "\n" conffiles)
  file(CONFIGURE OUTPUT ${made}/${package}/conffiles CONTENT "${conffiles}\n" @ONLY)
  system_files(${package} /etc/folio ${debian}/${role}.flags)
  system_file(${package} /usr/lib/sysusers.d ${package}.conf ${debian}/sysusers.conf)
  system_files(${package} /usr/share/doc/${package} ${debian}/README.Debian)
endfunction()

# The units and files of a worker, for the CPU or for CUDA.
function(folio_worker package)
  folio_daemon(${package} worker)
  set(flags worker.flags)
  set(listen "")
  set(name "")
  configure_file(${units}/folio-worker.service.in ${made}/folio-worker.service @ONLY)
  set(flags worker-%i.flags)
  set(listen " --listen=unix:/run/folio/worker-%i.sock")
  set(name " %i")
  configure_file(${units}/folio-worker.service.in ${made}/folio-worker@.service @ONLY)
  system_files(${package} /usr/lib/systemd/system ${made}/folio-worker.service ${made}/folio-worker@.service)
  install(PROGRAMS ${debian}/worker-has-model DESTINATION /usr/libexec/folio COMPONENT ${package} EXCLUDE_FROM_ALL)
  install(DIRECTORY DESTINATION /var/lib/folio/models COMPONENT ${package} EXCLUDE_FROM_ALL)
endfunction()

if(FOLIO_CUDA)
  include(deploy/packages_cuda.cmake)
else()
  folio_package(folio-manager manager)
  folio_daemon(folio-manager manager /etc/needrestart/conf.d/folio-manager.conf)
  system_file(folio-manager /etc/needrestart/conf.d folio-manager.conf ${debian}/needrestart.conf)
  system_files(folio-manager /usr/lib/systemd/system ${units}/folio-manager.service ${units}/folio-manager.socket
               ${units}/folio-manager-export.socket)
  folio_package(folio-worker worker)
  folio_worker(folio-worker)
  folio_package(folio-gateway gateway)
  folio_daemon(folio-gateway gateway)
  system_files(folio-gateway /usr/lib/systemd/system ${units}/folio-gateway.service)
  folio_package(folioctl cli)
  folio_package(libfolio-client-dev sdk)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES YES)
set(CPACK_PACKAGE_NAME folio)
set(CPACK_PACKAGE_CONTACT "${FOLIO_MAINTAINER}")
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # for /etc
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${debian}/finish.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${debian}/names.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_PACKAGE_SOURCE folio)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_COMPONENTS_ALL "")
foreach(package IN LISTS folio_packages)
  list(APPEND CPACK_COMPONENTS_ALL ${FOLIO_COMPONENT_${package}} ${package})
endforeach()

set(daemon_depends "init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers | systemd-sysusers")
include(deploy/debian/control.cmake)
foreach(package IN LISTS folio_packages)
  string(TOUPPER ${package} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package})
  if(EXISTS ${made}/${package}/postinst)
    set(CPACK_DEBIAN_${name}_PACKAGE_CONTROL_EXTRA ${made}/${package}/postinst ${made}/${package}/prerm
        ${made}/${package}/postrm ${made}/${package}/conffiles)
  endif()
endforeach()

include(CPack)
foreach(package IN LISTS folio_packages)
  cpack_add_component_group(${package})
  cpack_add_component(${FOLIO_COMPONENT_${package}} GROUP ${package})
  cpack_add_component(${package} GROUP ${package})
endforeach()
