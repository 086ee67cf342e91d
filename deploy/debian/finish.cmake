# Runs when CPack has gathered the files of each package and has not packed them yet. It adds what depends on the
# version, and puts documents where Debian wants them.
cmake_minimum_required(VERSION 3.25)
set(here ${CMAKE_CURRENT_LIST_DIR})
set(full ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
# SOURCE_DATE_EPOCH, the date of the commit, is what TIMESTAMP takes.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(entry "folio (${full}) bookworm; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}. The changes are in changelog.gz in this folder.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

file(GLOB packages LIST_DIRECTORIES true RELATIVE ${CPACK_TEMPORARY_DIRECTORY} ${CPACK_TEMPORARY_DIRECTORY}/*folio*)
foreach(package IN LISTS packages)
  set(doc ${CPACK_TEMPORARY_DIRECTORY}/${package}/usr/share/doc/${package})
  if(NOT EXISTS ${doc}/copyright)
    continue()
  endif()
  file(WRITE ${doc}/changelog.Debian "${entry}")
  file(COPY_FILE ${here}/../../CHANGELOG.md ${doc}/changelog)
  file(CHMOD ${doc}/changelog ${doc}/changelog.Debian PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND gzip -9nf ${doc}/changelog ${doc}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  # Debian packs manual pages, and its zsh looks for completions of packages in a folder of their own.
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${package}/usr/share)
  file(GLOB pages ${share}/man/man1/*.1)
  if(pages)
    execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  if(EXISTS ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  # `cmake --install` puts the SDK's example and the licence into share/doc/folio.
  set(project ${doc}/../folio)
  if(EXISTS ${project})
    file(MAKE_DIRECTORY ${doc}/examples)
    file(RENAME ${project}/example.cc ${doc}/examples/example.cc)
    file(REMOVE_RECURSE ${project})
  endif()
  # deploy/package.sh writes these before it calls CPack.
  foreach(name sbom.json third-party-licences.gz)
    set(from ${CPACK_PACKAGE_DIRECTORY}/documents/${package}/${name})
    if(EXISTS ${from})
      file(COPY_FILE ${from} ${doc}/${name})
      file(CHMOD ${doc}/${name} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    elseif(name STREQUAL sbom.json)
      message(FATAL_ERROR "there is no ${from}: make the packages with deploy/package.sh")
    endif()
  endforeach()
endforeach()
