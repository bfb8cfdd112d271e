# In the place of CPM.cmake, which cufinufft's setupCPM.cmake would download to download CCCL: the toolkit has CCCL.
macro(CPMAddPackage)
  cmake_parse_arguments(_cpm "" "NAME" "" ${ARGN})
  if(NOT _cpm_NAME STREQUAL "CCCL")
    message(FATAL_ERROR "${_cpm_NAME} would be downloaded: add it to the recipe")
  endif()
  find_package(CCCL REQUIRED CONFIG)
endmacro()
