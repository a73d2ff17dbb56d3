# Finds installed LLVMs by their llvm-config, one major at a time.
#
# find_package(LLVM) is not used: its version rule wants major.minor, and its imported targets allow one LLVM in a build
# while the plugins need one for each major.
#
#   pymlgo_find_llvm(22)   makes the target pymlgo_llvm_22 and sets PYMLGO_LLVM_22_{VERSION,PREFIX,TOOLS} when LLVM 22 with
#                          headers and a library to link is there; else says why on the console and sets nothing.
#
# PYMLGO_LLVM_DIR (cache or environment) holds prefixes of installations, or their bin folders, separated as in PATH. They
# are looked at first, each for the major that it holds.

set(PYMLGO_LLVM_DIR "$ENV{PYMLGO_LLVM_DIR}" CACHE STRING "Prefixes of LLVM installations to look at first")

# llvm-config programs that may belong to `major`, the nearest first, into `result`.
function(_pymlgo_llvm_config_candidates major result)
  set(candidates)
  string(REPLACE ":" ";" prefixes "${PYMLGO_LLVM_DIR}")
  foreach(prefix IN LISTS prefixes)
    list(APPEND candidates "${prefix}/bin/llvm-config" "${prefix}/llvm-config")
  endforeach()
  foreach(name IN ITEMS "llvm-config-${major}" "llvm${major}-config" "llvm-config")
    unset(found)
    find_program(found ${name} NO_CACHE)
    if(found)
      list(APPEND candidates "${found}")
    endif()
  endforeach()
  list(APPEND candidates "/usr/lib/llvm-${major}/bin/llvm-config" "/usr/lib/llvm/${major}/bin/llvm-config"
       "/opt/homebrew/opt/llvm@${major}/bin/llvm-config")
  set(${result} "${candidates}" PARENT_SCOPE)
endfunction()

# The output of `llvm-config ARGN…` into `result`; empty when it fails.
function(_pymlgo_ask config result)
  execute_process(COMMAND "${config}" ${ARGN} OUTPUT_VARIABLE output ERROR_QUIET RESULT_VARIABLE code
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    set(output "")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

# The library file of the shared LLVM, or the flags of the static one, into `result`.
function(_pymlgo_llvm_libraries config result)
  set(libraries "")
  _pymlgo_ask("${config}" mode --shared-mode)
  _pymlgo_ask("${config}" folder --libdir)
  if(mode STREQUAL "shared")
    _pymlgo_ask("${config}" names --libnames --link-shared)
    foreach(name IN LISTS names)
      if(EXISTS "${folder}/${name}")
        list(APPEND libraries "${folder}/${name}")
      endif()
    endforeach()
  else()
    _pymlgo_ask("${config}" files --link-static --libfiles all)
    _pymlgo_ask("${config}" system --link-static --system-libs)
    separate_arguments(files)
    separate_arguments(system)
    list(GET files 0 first)
    if(EXISTS "${first}")
      set(libraries ${files} ${system})
    endif()
  endif()
  set(${result} "${libraries}" PARENT_SCOPE)
endfunction()

function(pymlgo_find_llvm major)
  if(TARGET pymlgo_llvm_${major})
    return()
  endif()
  set(reason "no llvm-config of LLVM ${major} was found")
  _pymlgo_llvm_config_candidates(${major} candidates)
  foreach(config IN LISTS candidates)
    if(NOT EXISTS "${config}")
      continue()
    endif()
    _pymlgo_ask("${config}" version --version)
    if(NOT version MATCHES "^${major}\\.")
      continue()
    endif()
    _pymlgo_ask("${config}" include --includedir)
    _pymlgo_llvm_libraries("${config}" libraries)
    if(NOT EXISTS "${include}/llvm/IR/Module.h")
      set(reason "LLVM ${version} has no headers in ${include} (Debian: llvm-${major}-dev)")
      continue()
    endif()
    if(NOT libraries)
      set(reason "LLVM ${version} has no library to link (Debian: llvm-${major}-dev)")
      continue()
    endif()
    _pymlgo_declare_llvm(${major} "${config}" "${include}" "${libraries}")
    _pymlgo_ask("${config}" prefix --prefix)
    _pymlgo_ask("${config}" tools --bindir)
    set(PYMLGO_LLVM_${major}_VERSION "${version}" PARENT_SCOPE)
    set(PYMLGO_LLVM_${major}_PREFIX "${prefix}" PARENT_SCOPE)
    set_property(TARGET pymlgo_llvm_${major} PROPERTY PYMLGO_PREFIX "${prefix}")
    set(PYMLGO_LLVM_${major}_TOOLS "${tools}" PARENT_SCOPE)
    message(STATUS "pymlgo: LLVM ${version} at ${prefix}")
    return()
  endforeach()
  message(STATUS "pymlgo: ${reason}")
endfunction()

# The interface target: headers as SYSTEM (their warnings are not ours), definitions, the library, and -fno-rtti where LLVM has none.
function(_pymlgo_declare_llvm major config include libraries)
  set(target pymlgo_llvm_${major})
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${include}")
  # Debian's LLVM 19 headers include the C API's from a second folder.
  if(EXISTS "/usr/include/llvm-c-${major}")
    target_include_directories(${target} SYSTEM INTERFACE "/usr/include/llvm-c-${major}")
  endif()
  target_link_libraries(${target} INTERFACE ${libraries})
  _pymlgo_ask("${config}" flags --cppflags)
  string(REGEX MATCHALL "-D[^ ]+" definitions "${flags}")
  target_compile_options(${target} INTERFACE ${definitions})
  _pymlgo_ask("${config}" rtti --has-rtti)
  if(rtti STREQUAL "NO")
    set_property(TARGET ${target} PROPERTY PYMLGO_NO_RTTI ON)
  endif()
endfunction()

# The warnings of every target that is ours.
function(pymlgo_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()
