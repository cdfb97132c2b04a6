# Settings that every target of the project shares, as the interface target passnet_settings.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

find_program(PASSNET_CCACHE ccache)
if(PASSNET_CCACHE)
  # Paths relative to the project: another build folder, or another clone, finds what this one compiled.
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    CCACHE_NOHASHDIR=1 "${PASSNET_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

add_library(passnet_settings INTERFACE)
target_compile_features(passnet_settings INTERFACE cxx_std_20)
target_include_directories(passnet_settings INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
if(PASSNET_SANITIZE)
  target_compile_options(passnet_settings INTERFACE
    "-fsanitize=${PASSNET_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(passnet_settings INTERFACE "-fsanitize=${PASSNET_SANITIZE}")
endif()
if(PASSNET_STATIC)
  # What is carried elsewhere must not name the place where it was built. (Not for every build: the option
  # differs between clones, and the compiler cache could not be shared.)
  target_compile_options(passnet_settings INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
  target_link_options(passnet_settings INTERFACE -static-libstdc++ -static-libgcc)
endif()
