#include "bindings.h"
#include "ir_walk.h"
#include "mir_walk.h"
#include "triplets.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

using mlgo::Walk;

namespace {

nb::bytes bytes(std::string_view Text) { return nb::bytes(Text.data(), Text.size()); }

std::vector<nb::bytes> bytesOf(const mlgo::StringTable &Table) {
  std::vector<nb::bytes> Result;
  Result.reserve(Table.size());
  for (size_t I = 0; I < Table.size(); ++I)
    Result.push_back(bytes(Table[I]));
  return Result;
}

template <typename T, std::vector<T> Walk::*Member> auto array() {
  return [](nb::handle_t<Walk> Self) { return viewOf(nb::cast<const Walk &>(Self).*Member, Self); };
}

nb::ndarray<nb::numpy, int32_t, nb::shape<-1, 3>> tripletRows(const Walk &W, bool WithPredicates) {
  auto *Rows = new std::vector<int32_t>(mlgo::triplets(W, WithPredicates).Rows);
  nb::capsule Owner(Rows, [](void *Data) noexcept { delete static_cast<std::vector<int32_t> *>(Data); });
  return nb::ndarray<nb::numpy, int32_t, nb::shape<-1, 3>>(Rows->data(), {Rows->size() / 3, 3}, Owner);
}

Walk readIR(nb::bytes Data, const std::string &Name, bool Definitions, bool Loops, bool Regions) {
  std::string_view Content = view(Data);
  nb::gil_scoped_release Release;
  return mlgo::walkIR(Content, Name, {Definitions, {Loops, Regions}});
}

Walk readMIR(nb::bytes Data, const std::string &Name, bool Loops, bool Regions) {
  std::string_view Content = view(Data);
  mlgo::MIRWalkOptions Options;
  Options.Sets = {Loops, Regions};
  nb::gil_scoped_release Release;
  return mlgo::walkMIR(Content, Name, Options);
}

void bindArrays(nb::class_<Walk> &Class) {
  Class
      .def_prop_ro("declaration", array<uint8_t, &Walk::Declaration>(),
                   "[F] 1 for a function without a body.")
      .def_prop_ro("content_hash", array<uint64_t, &Walk::ContentHash>(), "[F] differs where embeddings may.")
      .def_prop_ro("first_block", array<uint32_t, &Walk::FirstBlock>(), "[F + 1] index of the first block.")
      .def_prop_ro("first_visit", array<uint32_t, &Walk::FirstVisit>(), "[F + 1] index of the first visit.")
      .def_prop_ro("visit", array<uint32_t, &Walk::Visit>(), "Reachable blocks, depth first, pre-order.")
      .def_prop_ro("first_instruction", array<uint32_t, &Walk::FirstInstruction>(), "[B + 1]")
      .def_prop_ro("pattern", array<uint32_t, &Walk::Pattern>(), "[I] index of the instruction's pattern.")
      .def_prop_ro("skipped", array<uint8_t, &Walk::Skipped>(), "[I] 1 for what sums leave out.")
      .def_prop_ro("definition", array<uint32_t, &Walk::Definition>(),
                   "[O] the instruction that defines an operand; 2**32 - 1: none.")
      .def_prop_ro("first_operand", array<uint32_t, &Walk::FirstOperand>(), "[I + 1], or empty.")
      .def_prop_ro("opcode", array<uint16_t, &Walk::Opcode>(), "[P] entity ids; 65535: none.")
      .def_prop_ro("type", array<uint16_t, &Walk::Type>(), "[P] entity ids; 65535: none.")
      .def_prop_ro("predicate", array<uint16_t, &Walk::Predicate>(), "[P] entity ids; 65535: none.")
      .def_prop_ro("first_pattern_operand", array<uint32_t, &Walk::FirstPatternOperand>(), "[P + 1]")
      .def_prop_ro("pattern_operand", array<uint16_t, &Walk::PatternOperand>(), "Entity ids; 65535: none.")
      .def_prop_ro("set_kind", array<uint8_t, &Walk::SetKinds>(), "[S] 0 loop, 1 region.")
      .def_prop_ro("set_function", array<uint32_t, &Walk::SetFunction>(), "[S]")
      .def_prop_ro("set_parent", array<uint32_t, &Walk::SetParent>(),
                   "[S] the set around it; 2**32 - 1: none.")
      .def_prop_ro("set_depth", array<uint32_t, &Walk::SetDepth>(), "[S] as LLVM counts.")
      .def_prop_ro("set_entry", array<uint32_t, &Walk::SetEntry>(), "[S] a loop's header, a region's entry.")
      .def_prop_ro("set_exit", array<uint32_t, &Walk::SetExit>(), "[S] a region's exit; 2**32 - 1: none.")
      .def_prop_ro("first_member", array<uint32_t, &Walk::FirstMember>(), "[S + 1]")
      .def_prop_ro("member", array<uint32_t, &Walk::Member>(), "Blocks of the sets, in layout order.");
}

} // namespace

void bindWalk(nb::module_ &module) {
  nb::class_<Walk> Class(module, "Walk", "A module as flat arrays; see native/core/walk.h.");
  Class.def_prop_ro("is_mir", [](const Walk &W) { return W.form() == mlgo::Form::MIR; })
      .def_prop_ro("entity_count", &Walk::entityCount)
      .def_prop_ro(
          "target", [](const Walk &W) { return bytesOf(W.Target); }, "MIR: the target's name and triple.")
      .def_prop_ro("function_names", [](const Walk &W) { return bytesOf(W.FunctionNames); })
      .def_prop_ro("block_names", [](const Walk &W) { return bytesOf(W.BlockNames); })
      .def_prop_ro("functions", &Walk::functions)
      .def_prop_ro("blocks", &Walk::blocks)
      .def_prop_ro("instructions", &Walk::instructions)
      .def_prop_ro("has_definitions", &Walk::hasDefinitions);
  bindArrays(Class);
  Class.def("serialize", [](const Walk &W) { return bytes(W.serialize()); })
      .def_static(
          "deserialize", [](nb::bytes Data) { return Walk::deserialize(view(Data)); }, nb::arg("data"))
      .def("triplets", &tripletRows, nb::arg("predicates") = false,
           "i32[n, 3]: head, tail, relation, in llvm-ir2vec's order; relation -1 is a predicate's.")
      .def(
          "triplets_text", [](const Walk &W) { return bytes(mlgo::tripletsText(W)); },
          "What `llvm-ir2vec triplets` prints.");
  module.def("read_ir", &readIR, nb::arg("data"), nb::arg("name"), nb::arg("definitions") = true,
             nb::arg("loops") = false, nb::arg("regions") = false,
             "Read bitcode or text in this process; a module that LLVM cannot stand ends it.");
  module.def("read_mir", &readMIR, nb::arg("data"), nb::arg("name"), nb::arg("loops") = false,
             nb::arg("regions") = false, "Read .mir text in this process.");
}
