# Static libraries that cargo builds from crates of this repository: folio_crate(NAME ...).

# FOLIO_CARGO_DIR may be shared between build folders: cargo's output does not depend on the build
# type or the sanitizers, so several folders then compile the crates once.
set(FOLIO_CARGO_DIR ${CMAKE_BINARY_DIR}/cargo CACHE PATH "Where cargo puts what it builds")
set(FOLIO_CARGO_MINIMUM 1.82)

# Sets FOLIO_CARGO to the first cargo that is recent enough. All of PATH is tried: an old cargo, or a
# rustup that has no toolchain for this user, must not hide a good one behind it.
function(folio_find_cargo)
  set(seen "")
  cmake_path(CONVERT "$ENV{PATH}" TO_CMAKE_PATH_LIST path)
  foreach(name cargo cargo-1.91 cargo-1.89 cargo-1.85 cargo-1.84 cargo-1.83 cargo-1.82)
    foreach(folder $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin ${path})
      set(candidate ${folder}/${name})
      if(NOT EXISTS ${candidate})
        continue()
      endif()
      execute_process(COMMAND ${candidate} --version OUTPUT_VARIABLE said ERROR_QUIET
                      OUTPUT_STRIP_TRAILING_WHITESPACE)
      string(REGEX MATCH "[0-9]+\\.[0-9]+" version "${said}")
      if(version VERSION_GREATER_EQUAL FOLIO_CARGO_MINIMUM)
        set(FOLIO_CARGO ${candidate} CACHE FILEPATH "cargo ${FOLIO_CARGO_MINIMUM} or newer" FORCE)
        return()
      endif()
      string(APPEND seen "\n  found ${candidate}: ${said}, which will not do")
    endforeach()
  endforeach()
  message(FATAL_ERROR
    "Folio needs cargo ${FOLIO_CARGO_MINIMUM} or newer, and there is none.${seen}\n"
    "  Debian 12:     apt-get install cargo-web\n"
    "  Ubuntu 24.04:  apt-get install cargo-1.82 rustc-1.82\n"
    "  elsewhere:     install Rust with rustup\n"
    "or name one with -DFOLIO_CARGO=/path/to/cargo.")
endfunction()

if(NOT FOLIO_CARGO)
  folio_find_cargo()
endif()

# A cargo wants the rustc beside it (Ubuntu's are numbered), not the first on PATH.
set(FOLIO_CARGO_ENVIRONMENT CARGO_TARGET_DIR=${FOLIO_CARGO_DIR})
cmake_path(GET FOLIO_CARGO PARENT_PATH cargo_folder)
cmake_path(GET FOLIO_CARGO FILENAME own_rustc)
string(REPLACE cargo rustc own_rustc ${own_rustc})
set(own_rustc ${cargo_folder}/${own_rustc})
if(EXISTS ${own_rustc})
  list(APPEND FOLIO_CARGO_ENVIRONMENT RUSTC=${own_rustc})
else()
  set(own_rustc rustc)
endif()

# Flags for rustc, for the crates and not for programs that run during their build. These have no flags if the target
# is named, also if it is this machine's.
set(FOLIO_RUST_FLAGS "" CACHE STRING "Flags for rustc")
set(FOLIO_CARGO_TARGET)
set(FOLIO_CARGO_RELEASE ${FOLIO_CARGO_DIR}/release)
if(FOLIO_RUST_FLAGS)
  execute_process(COMMAND ${own_rustc} -vV OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "host: ([^\n]+)" said "${said}")
  set(FOLIO_CARGO_TARGET --target ${CMAKE_MATCH_1})
  set(FOLIO_CARGO_RELEASE ${FOLIO_CARGO_DIR}/${CMAKE_MATCH_1}/release)
  list(APPEND FOLIO_CARGO_ENVIRONMENT "RUSTFLAGS=${FOLIO_RUST_FLAGS}")
endif()

# folio_crate(NAME FOLDER folder LIBRARY library SOURCES sources COMMENT comment)
# Makes the imported library NAME of the crate in `folder`, whose [lib] is named `library`. A program may link one such
# library and not two, because each has Rust's standard library inside.
# The crates share a target folder, in which names of libraries have to differ. Only one cargo runs at a time.
function(folio_crate name)
  cmake_parse_arguments(crate "" "FOLDER;LIBRARY;COMMENT" "SOURCES" ${ARGN})
  list(TRANSFORM crate_SOURCES PREPEND ${crate_FOLDER}/)
  set(boundary ${CMAKE_SOURCE_DIR}/services/base/boundary)  # all of them depend on it
  set(archive ${CMAKE_BINARY_DIR}/lib/lib${name}.a)
  add_custom_command(
    OUTPUT ${archive}
    COMMAND ${CMAKE_COMMAND} -E env ${FOLIO_CARGO_ENVIRONMENT}
            ${FOLIO_CARGO} build --release --locked ${FOLIO_CARGO_TARGET} --manifest-path ${crate_FOLDER}/Cargo.toml
    COMMAND ${CMAKE_COMMAND} -E copy ${FOLIO_CARGO_RELEASE}/lib${crate_LIBRARY}.a ${archive}
    DEPENDS ${crate_FOLDER}/Cargo.toml ${crate_FOLDER}/Cargo.lock ${crate_SOURCES} ${boundary}/Cargo.toml
            ${boundary}/src/lib.rs
    COMMENT "cargo: ${crate_COMMENT}"
    USES_TERMINAL VERBATIM)
  add_custom_target(${name}_cargo DEPENDS ${archive})

  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${archive})
  target_link_libraries(${name} INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
  add_dependencies(${name} ${name}_cargo)
endfunction()
