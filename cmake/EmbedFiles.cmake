# passnet_embed(<target> NAME <name> BASE <folder> FILES <file>...)
#
# Compiles real text files into <target>. `#include "embedded/<name>.h"` declares
#   std::span<const EmbeddedFile> passnet::embedded::<name>();
# with one entry a file, in the order given; its path is relative to BASE. Files may hold any text without
# NUL bytes. Editing a file rebuilds the target.
set(PASSNET_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/embed_script.cmake")

function(passnet_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;BASE" "FILES")
  set(out_dir "${PROJECT_BINARY_DIR}/generated/embedded")
  get_filename_component(base "${arg_BASE}" ABSOLUTE)
  set(paths)
  foreach(file IN LISTS arg_FILES)
    get_filename_component(path "${file}" ABSOLUTE BASE_DIR "${base}")
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "passnet_embed(${arg_NAME}): no file ${path}")
    endif()
    list(APPEND paths "${path}")
  endforeach()
  # The list goes through a file: a command line has a limit, and quoting of lists is no fun.
  set(list_file "${out_dir}/${arg_NAME}.list")
  string(REPLACE ";" "\n" list_text "${paths}")
  file(GENERATE OUTPUT "${list_file}" CONTENT "${list_text}\n")
  file(MAKE_DIRECTORY "${out_dir}")
  file(WRITE "${out_dir}/${arg_NAME}.h.new" "#pragma once

#include <span>

#include \"base/embedded.h\"

namespace passnet::embedded {

std::span<const EmbeddedFile> ${arg_NAME}();

}  // namespace passnet::embedded
")
  configure_file("${out_dir}/${arg_NAME}.h.new" "${out_dir}/${arg_NAME}.h" COPYONLY)
  add_custom_command(
    OUTPUT "${out_dir}/${arg_NAME}.cpp"
    COMMAND "${CMAKE_COMMAND}" "-DNAME=${arg_NAME}" "-DBASE=${base}" "-DLIST=${list_file}"
      "-DOUT=${out_dir}/${arg_NAME}.cpp" -P "${PASSNET_EMBED_SCRIPT}"
    DEPENDS ${paths} "${list_file}" "${PASSNET_EMBED_SCRIPT}"
    COMMENT "Embedding ${arg_NAME}"
    VERBATIM)
  # A library of its own: a target of another folder cannot depend on this folder's command.
  add_library(embedded_${arg_NAME} STATIC "${out_dir}/${arg_NAME}.cpp")
  target_link_libraries(embedded_${arg_NAME} PRIVATE passnet_settings)
  target_link_libraries(${target} PRIVATE embedded_${arg_NAME})
endfunction()
