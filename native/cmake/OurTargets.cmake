# What every target of ours is compiled with.

# The warnings of every target that is ours.
function(pymlgo_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()

# The sanitizers, where PYMLGO_SANITIZE asks for them. LLVM has no type information for -fsanitize=vptr.
function(pymlgo_sanitizers target)
  if(PYMLGO_SANITIZE)
    target_compile_options(${target} PRIVATE -g -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()
