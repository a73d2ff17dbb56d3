#include "bindings.h"
#include "entities.h"
#include "mir_target.h"

#include "llvm/Demangle/Demangle.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

using Ranges = std::vector<std::tuple<std::string, unsigned, unsigned>>;

static Ranges tuples(const std::vector<mlgo::EntityRange> &From) {
  Ranges Result;
  for (const mlgo::EntityRange &Each : From)
    Result.emplace_back(Each.Name, Each.First, Each.Count);
  return Result;
}

void bindEntities(nb::module_ &module) {
  module.def(
      "demangle", [](const std::string &Name) { return llvm::demangle(Name); }, nb::arg("name"),
      "A symbol's readable name; itself where it is not mangled.");
  module.def("llvm_version", &mlgo::llvmVersion, "Version of the LLVM that is linked, e.g. `22.1.8`.");
  module.def("ir_entity_names", &mlgo::irEntityNames, "Names of IR2Vec's entities; the index is the id.");
  module.def(
      "ir_entity_ranges", [] { return tuples(mlgo::irEntityRanges()); },
      "(kind, first id, count) of opcodes, types, operands and predicates.");
  module.def(
      "mir_entities",
      [](const std::string &Triple) {
        const mlgo::MIRTarget &Target = mlgo::mirTarget(Triple);
        return std::make_tuple(Target.name(), Target.entityNames(), tuples(Target.ranges()));
      },
      nb::arg("triple"),
      nb::sig("def mir_entities(triple: str) -> tuple[str, list[str], list[tuple[str, int, int]]]"),
      "MIR2Vec's entities for a triple's target (empty: this host): target, names by id, (kind, first id, "
      "count).");
}
