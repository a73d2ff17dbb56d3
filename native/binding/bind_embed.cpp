#include "bindings.h"
#include "embed.h"

#include <nanobind/stl/vector.h>

#include <stdexcept>

using mlgo::Walk;
using TableArray = nb::ndarray<const double, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutArray = nb::ndarray<double, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using IndexArray = nb::ndarray<const uint32_t, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Embed = void (*)(const Walk &, const mlgo::Table &, mlgo::Kind, mlgo::FunctionRange, double *);

namespace {

mlgo::Kind kindOf(const Walk &W, int Kind) {
  if (Kind < 0 || Kind > 2)
    throw std::invalid_argument("kind is 0 (symbolic), 1 (flow-aware) or 2 (flow-normalized)");
  if (Kind != 0 && !W.hasDefinitions())
    throw std::invalid_argument("the walk has no definitions, which this kind needs");
  return static_cast<mlgo::Kind>(Kind);
}

size_t rowCount(const Walk &W, Embed Level, mlgo::FunctionRange Range) {
  if (Level == mlgo::embedFunctions)
    return Range.End - Range.Begin;
  uint32_t Begin = W.FirstBlock[Range.Begin], End = W.FirstBlock[Range.End];
  return Level == mlgo::embedBlocks ? End - Begin : W.FirstInstruction[End] - W.FirstInstruction[Begin];
}

template <Embed Level> auto bound() {
  return [](const Walk &W, const TableArray &Rows, int Kind, size_t Begin, size_t End, const OutArray &Out) {
    mlgo::FunctionRange Range{Begin, End};
    if (Begin > End || End > W.functions())
      throw std::invalid_argument("the range of functions does not lie in the walk");
    if (Rows.shape(0) != W.entityCount())
      throw std::invalid_argument("the table has another number of entities than the walk");
    if (Out.shape(0) != rowCount(W, Level, Range) || Out.shape(1) != Rows.shape(1))
      throw std::invalid_argument("the result array has another shape");
    mlgo::Kind Checked = kindOf(W, Kind);
    nb::gil_scoped_release Release;
    Level(W, {Rows.data(), Rows.shape(0), Rows.shape(1)}, Checked, Range, Out.data());
  };
}

template <Embed Level> void bindLevel(nb::module_ &module, const char *Name, const char *Doc) {
  module.def(Name, bound<Level>(), nb::arg("walk"), nb::arg("table"), nb::arg("kind"), nb::arg("begin"),
             nb::arg("end"), nb::arg("out"), Doc);
}

void sumRows(const TableArray &Rows, const IndexArray &First, const IndexArray &Members,
             const OutArray &Out) {
  if (First.shape(0) != Out.shape(0) + 1 || Rows.shape(1) != Out.shape(1))
    throw std::invalid_argument("the result array has another shape");
  for (size_t S = 0; S + 1 < First.shape(0); ++S)
    if (First.data()[S] > First.data()[S + 1])
      throw std::invalid_argument("first must not fall");
  if (First.data()[First.shape(0) - 1] > Members.shape(0))
    throw std::invalid_argument("first goes beyond members");
  for (size_t I = 0; I < Members.shape(0); ++I)
    if (Members.data()[I] >= Rows.shape(0))
      throw std::invalid_argument("a member is no row");
  nb::gil_scoped_release Release;
  mlgo::sumRows(Rows.data(), Rows.shape(1), First.data(), First.shape(0) - 1, Members.data(), Out.data());
}

void countEntities(const Walk &W, const std::vector<uint32_t> &Entities, const OutArray &Out) {
  if (Out.shape(0) != W.blocks() || Out.shape(1) != Entities.size())
    throw std::invalid_argument("the result array has another shape");
  for (uint32_t Entity : Entities)
    if (Entity >= W.entityCount())
      throw std::invalid_argument("no such entity");
  nb::gil_scoped_release Release;
  mlgo::countEntities(W, Entities, Out.data());
}

} // namespace

void bindEmbed(nb::module_ &module) {
  bindLevel<mlgo::embedInstructions>(module, "embed_instructions",
                                     "Fill `out` with a row for each instruction of functions [begin, end).");
  bindLevel<mlgo::embedBlocks>(module, "embed_blocks",
                               "Fill `out` with a row for each block of functions [begin, end).");
  bindLevel<mlgo::embedFunctions>(module, "embed_functions",
                                  "Fill `out` with a row for each function of [begin, end).");
  module.def("sum_rows", &sumRows, nb::arg("rows"), nb::arg("first"), nb::arg("members"), nb::arg("out"),
             "out[s] = ((0 + rows[m]) + …) over members[first[s]:first[s + 1]], in that order.");
  module.def("used_entities", &mlgo::usedEntities, nb::arg("walk"),
             "Entities that the walk uses, ascending.");
  module.def("count_entities", &countEntities, nb::arg("walk"), nb::arg("entities"), nb::arg("out"),
             "Fill `out` [blocks, entities] with how often each entity occurs in each block's counted "
             "instructions.");
}
