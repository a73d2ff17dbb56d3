#include "entities.h"

#include "llvm/Analysis/IR2Vec.h"
#include "llvm/Config/llvm-config.h"

using llvm::ir2vec::Vocabulary;

namespace mlgo {

std::string llvmVersion() { return LLVM_VERSION_STRING; }

std::vector<std::string> irEntityNames() {
  std::vector<std::string> Names;
  Names.reserve(Vocabulary::getCanonicalSize());
  for (unsigned Id = 0; Id < Vocabulary::getCanonicalSize(); ++Id)
    Names.push_back(Vocabulary::getStringKey(Id).str());
  return Names;
}

std::vector<EntityRange> irEntityRanges() {
  const std::pair<const char *, unsigned> Counts[] = {{"opcodes", Vocabulary::MaxOpcodes},
                                                      {"types", Vocabulary::MaxCanonicalTypeIDs},
                                                      {"operands", Vocabulary::MaxOperandKinds},
                                                      {"predicates", Vocabulary::MaxPredicateKinds}};
  std::vector<EntityRange> Ranges;
  unsigned First = 0;
  for (const auto &[Name, Count] : Counts) {
    Ranges.push_back({Name, First, Count});
    First += Count;
  }
  return Ranges;
}

} // namespace mlgo
