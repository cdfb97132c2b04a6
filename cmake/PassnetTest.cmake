# passnet_test(<name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [TIMEOUT <seconds>])
#
# One test program (GoogleTest, GoogleMock, RapidCheck) and one ctest entry of that name. Tests run in the
# project's root; PASSNET_SOURCE_DIR is its path as a string. A test writes only below testing::TempDir().
# Each program leaves its counts in <build>/test-results/<name>.xml, from which the closing line is summed.
function(passnet_test name)
  if(NOT PASSNET_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS;LABELS")
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "passnet_test(${name}): no SOURCES")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "passnet_test(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE passnet_settings passnet_warnings ${arg_LIBS} passnet_base
    passnet_gtest)
  target_compile_definitions(${name} PRIVATE PASSNET_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} "--gtest_output=xml:${PROJECT_BINARY_DIR}/test-results/${name}.xml")
  set_tests_properties(${name} PROPERTIES
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
    ENVIRONMENT "RC_PARAMS=seed=20240229")
endfunction()

if(PASSNET_TESTS)
  # RapidCheck is packaged without its adapter target for GoogleTest; its headers are there.
  add_library(passnet_gtest INTERFACE)
  target_link_libraries(passnet_gtest INTERFACE GTest::gmock GTest::gtest GTest::gmock_main rapidcheck)
endif()
