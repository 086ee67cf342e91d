# CPack reads this once more before it packs, when the version is final.
#
# The file of folioctl gets a name that `apt install ./folio-*.deb` finds, beside those of the daemons. The SDK is for
# developers, and is not found by it.
execute_process(COMMAND dpkg --print-architecture OUTPUT_VARIABLE architecture OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
set(full ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_FOLIOCTL_FILE_NAME folio-folioctl_${full}_${architecture}.deb)
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_PROVIDES "folio-worker (= ${full})")
