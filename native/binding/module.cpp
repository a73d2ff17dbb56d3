// The extension pymlgo._native: the core's values as Python objects and numpy arrays.
#include "bindings.h"
#include "read_error.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

NB_MODULE(_native, module) {
  module.doc() = "pymlgo's C++ core: reads modules with the LLVM it was built for and adds up embeddings.";
  // This registers a type, and the object is not needed.
  // NOLINTNEXTLINE(bugprone-unused-raii,bugprone-throw-keyword-missing)
  nb::exception<mlgo::ReadError>(module, "ReadError", PyExc_ValueError);
  bindEntities(module);
  bindWalk(module);
  bindEmbed(module);
}
