# Warnings for our own code, as the interface target passnet_warnings; foreign code is compiled without.

add_library(passnet_warnings INTERFACE)
target_compile_options(passnet_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wunused
  -Wformat=2 -Wimplicit-fallthrough
  # Leaving out members in {.name = value} is the point of naming them.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(passnet_warnings INTERFACE -Wduplicated-cond -Wlogical-op -Wnull-dereference)
endif()
if(PASSNET_WERROR)
  target_compile_options(passnet_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These follow inlining into the standard library and guess wrong there; they warn, they do not stop.
    target_compile_options(passnet_warnings INTERFACE
      -Wno-error=null-dereference -Wno-error=maybe-uninitialized -Wno-error=restrict
      -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=array-bounds)
  endif()
endif()
