# Libraries of others: from the system's packages, but for tree-sitter and its Python grammar, which
# tools/setup fetches as hash-checked source packages.

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(fmt 8 REQUIRED)
find_package(CLI11 2 REQUIRED)

# The system's {fmt} is a shared library only; the binary that is carried elsewhere takes the headers.
add_library(passnet_fmt INTERFACE)
if(PASSNET_STATIC)
  target_link_libraries(passnet_fmt INTERFACE fmt::fmt-header-only)
else()
  target_link_libraries(passnet_fmt INTERFACE fmt::fmt)
endif()

set(PASSNET_THIRD_PARTY_DIR "${PROJECT_SOURCE_DIR}/.cache/third_party" CACHE PATH
  "Where tools/setup unpacked the pinned sources")
set(ts_core_dir "${PASSNET_THIRD_PARTY_DIR}/tree_sitter-0.26.1/tree_sitter/core/lib")
# The source package of grammar 0.25.0 lacks its scanner; that of 0.23.6, whose token table is the same, has one
# but no headers. What the older scanner lacks: template strings (t"") and indents over 255 columns.
set(ts_python_dir "${PASSNET_THIRD_PARTY_DIR}/tree_sitter_python-0.25.0")
set(ts_python_scanner "${PASSNET_THIRD_PARTY_DIR}/tree_sitter_python-0.23.6/src/scanner.c")
foreach(source IN ITEMS "${ts_core_dir}/src/lib.c" "${ts_python_dir}/src/parser.c" "${ts_python_scanner}")
  if(NOT EXISTS "${source}")
    message(FATAL_ERROR "missing ${source}\nRun `make setup` first: it fetches the pinned sources of tree-sitter.")
  endif()
endforeach()

add_library(ts_core STATIC "${ts_core_dir}/src/lib.c")
target_include_directories(ts_core SYSTEM PUBLIC "${ts_core_dir}/include" PRIVATE "${ts_core_dir}/src")
target_compile_definitions(ts_core PRIVATE _POSIX_C_SOURCE=200112L _DEFAULT_SOURCE)
target_compile_options(ts_core PRIVATE -w -O2)
set_target_properties(ts_core PROPERTIES C_STANDARD 11)

# The grammar exports `const TSLanguage *tree_sitter_python(void)`; the package has no header for it.
add_library(ts_python STATIC "${ts_python_dir}/src/parser.c" "${ts_python_scanner}")
target_include_directories(ts_python PRIVATE "${ts_python_dir}/src")
target_link_libraries(ts_python PUBLIC ts_core)
target_compile_options(ts_python PRIVATE -w -O1)
set_target_properties(ts_python PROPERTIES C_STANDARD 11)

if(PASSNET_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
