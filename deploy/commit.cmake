# Writes ${OUTPUT}, a header with FOLIO_COMMIT: the commit that ${SOURCE} is at, with "-dirty" if files differ from it, or
# "" outside a git repository. It runs in every build and leaves an unchanged header alone, so nothing is compiled again.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* --abbrev=10
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "$ENV{FOLIO_COMMIT}")  # for builds from an archive
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define FOLIO_COMMIT \"@commit@\"\n" @ONLY)
