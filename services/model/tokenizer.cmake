# folio_tokenizer: the Tokenizer interface on top of a static library that cargo builds.

# FOLIO_CARGO_DIR may be shared between build folders: cargo's output does not depend on the build
# type or the sanitizers, so several folders then compile the crates once.
set(FOLIO_CARGO_DIR ${CMAKE_BINARY_DIR}/cargo CACHE PATH "Where cargo puts what it builds")
set(FOLIO_CARGO_MINIMUM 1.80)

# Sets FOLIO_CARGO to the first cargo that is recent enough. All of PATH is tried: an old cargo, or a
# rustup that has no toolchain for this user, must not hide a good one behind it.
function(folio_find_cargo)
  set(seen "")
  cmake_path(CONVERT "$ENV{PATH}" TO_CMAKE_PATH_LIST path)
  foreach(name cargo cargo-1.91 cargo-1.89 cargo-1.85 cargo-1.84 cargo-1.83 cargo-1.82 cargo-1.81 cargo-1.80)
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
    "The tokenizer needs cargo ${FOLIO_CARGO_MINIMUM} or newer, and there is none.${seen}\n"
    "  Debian 12:     apt-get install cargo-web\n"
    "  Ubuntu 24.04:  apt-get install cargo-1.82 rustc-1.82\n"
    "  elsewhere:     install Rust with rustup\n"
    "or name one with -DFOLIO_CARGO=/path/to/cargo.")
endfunction()

if(NOT FOLIO_CARGO)
  folio_find_cargo()
endif()

# A cargo wants the rustc beside it (Ubuntu's are numbered), not the first on PATH.
set(cargo_environment CARGO_TARGET_DIR=${FOLIO_CARGO_DIR})
cmake_path(GET FOLIO_CARGO PARENT_PATH cargo_folder)
cmake_path(GET FOLIO_CARGO FILENAME own_rustc)
string(REPLACE cargo rustc own_rustc ${own_rustc})
set(own_rustc ${cargo_folder}/${own_rustc})
if(EXISTS ${own_rustc})
  list(APPEND cargo_environment RUSTC=${own_rustc})
endif()

set(ffi ${CMAKE_CURRENT_SOURCE_DIR}/tokenizer_ffi)
set(ffi_library ${CMAKE_BINARY_DIR}/lib/libfolio_tokenizer_ffi.a)
add_custom_command(
  OUTPUT ${ffi_library}
  COMMAND ${CMAKE_COMMAND} -E env ${cargo_environment}
          ${FOLIO_CARGO} build --release --locked --manifest-path ${ffi}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E copy ${FOLIO_CARGO_DIR}/release/libfolio_tokenizer.a ${ffi_library}
  DEPENDS ${ffi}/Cargo.toml ${ffi}/Cargo.lock ${ffi}/src/lib.rs ${ffi}/src/vocabulary.rs
          ${ffi}/src/chat.rs
  COMMENT "cargo: tokenizers and minijinja (a minute or two the first time)"
  USES_TERMINAL VERBATIM)
add_custom_target(folio_tokenizer_cargo DEPENDS ${ffi_library})

add_library(folio_tokenizer_ffi STATIC IMPORTED)
set_target_properties(folio_tokenizer_ffi PROPERTIES IMPORTED_LOCATION ${ffi_library})
target_link_libraries(folio_tokenizer_ffi INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(folio_tokenizer_ffi folio_tokenizer_cargo)

add_library(folio_tokenizer STATIC tokenizer.cc gguf_tokenizer.cc)
target_link_libraries(folio_tokenizer
  PUBLIC folio_build folio_common absl::status absl::statusor absl::strings absl::span
  PRIVATE folio_text folio_tokenizer_ffi absl::time nlohmann_json::nlohmann_json)
add_dependencies(folio_tokenizer folio_tokenizer_cargo)
