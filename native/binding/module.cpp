// The extension pymlgo._native.
#include "entities.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

NB_MODULE(_native, module) {
  module.doc() = "pymlgo's C++ core: reads modules with the LLVM it was built for and adds up embeddings.";
  module.def("llvm_version", &mlgo::llvmVersion, "Version of the LLVM that is linked, e.g. `22.1.8`.");
  module.def("ir_entity_names", &mlgo::irEntityNames, "Names of IR2Vec's entities; the index is the id.");
}
