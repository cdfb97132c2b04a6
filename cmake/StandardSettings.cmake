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
  set(CMAKE_C_COMPILER_LAUNCHER "${PASSNET_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PASSNET_CCACHE}")
endif()

add_library(passnet_settings INTERFACE)
target_compile_features(passnet_settings INTERFACE cxx_std_20)
target_include_directories(passnet_settings INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
# __FILE__ and debug information must not carry the place where somebody built.
target_compile_options(passnet_settings INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(PASSNET_SANITIZE)
  target_compile_options(passnet_settings INTERFACE
    "-fsanitize=${PASSNET_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(passnet_settings INTERFACE "-fsanitize=${PASSNET_SANITIZE}")
endif()
if(PASSNET_STATIC)
  target_link_options(passnet_settings INTERFACE -static-libstdc++ -static-libgcc)
endif()
