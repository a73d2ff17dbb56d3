// A module as flat arrays: all that embeddings and triplets need, without LLVM's objects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlgo {

/// No entity: a register without a class, a missing type or predicate. Counts as the zero vector.
constexpr uint16_t NoEntity = 0xffff;
/// No index: an operand that no instruction defines, a loop without a parent.
constexpr uint32_t NoIndex = 0xffffffff;

/// Many short byte strings in one buffer; names may hold any byte.
struct StringTable {
  std::vector<char> Bytes;
  std::vector<uint32_t> Ends;

  void push(std::string_view Text) {
    Bytes.insert(Bytes.end(), Text.begin(), Text.end());
    Ends.push_back(static_cast<uint32_t>(Bytes.size()));
  }
  size_t size() const { return Ends.size(); }
  std::string_view operator[](size_t I) const {
    uint32_t Begin = I ? Ends[I - 1] : 0;
    return {Bytes.data() + Begin, Ends[I] - Begin};
  }
};

enum class Form : uint32_t { IR = 0, MIR = 1 };
enum class SetKind : uint8_t { Loop = 0, Region = 1 };

/// One module. Every "First…" array has one entry more than the things it counts, so that thing I owns
/// [First[I], First[I + 1]) of the next array.
///
/// An instruction's *pattern* is its opcode, type, operand kinds and predicate; equal instructions share one,
/// so a symbolic vector is computed once for each pattern.
struct Walk {
  std::vector<uint32_t> Header; // Form, entity count, entity that triplets name for NoEntity
  StringTable Target;           // for MIR the target's name and the triple; empty for IR

  StringTable FunctionNames;
  std::vector<uint8_t> Declaration;  // [F] 1 for a function without a body
  std::vector<uint64_t> ContentHash; // [F] changes when the function's embedding may change
  std::vector<uint32_t> FirstBlock;  // [F + 1]
  std::vector<uint32_t> FirstVisit;  // [F + 1]
  std::vector<uint32_t> Visit;       // blocks reachable from the entry, depth first, pre-order

  StringTable BlockNames;
  std::vector<uint32_t> FirstInstruction; // [B + 1]

  std::vector<uint32_t> Pattern;      // [I]
  std::vector<uint8_t> Skipped;       // [I] 1 for debug and pseudo-probe instructions, which sums leave out
  std::vector<uint32_t> FirstOperand; // [I + 1], or empty when definitions were not asked for
  std::vector<uint32_t> Definition;   // [O] the instruction that defines an operand, or NoIndex

  std::vector<uint16_t> Opcode;              // [P]
  std::vector<uint16_t> Type;                // [P] NoEntity for MIR
  std::vector<uint16_t> Predicate;           // [P] NoEntity but for comparisons
  std::vector<uint32_t> FirstPatternOperand; // [P + 1]
  std::vector<uint16_t> PatternOperand;

  // Loops and regions, where asked for; outer ones before the ones they hold.
  std::vector<uint8_t> SetKinds;     // [S]
  std::vector<uint32_t> SetFunction; // [S]
  std::vector<uint32_t> SetParent;   // [S] the set around it, or NoIndex
  std::vector<uint32_t> SetDepth;    // [S] 1 is outermost for loops, 0 for regions, as LLVM counts
  std::vector<uint32_t> SetEntry;    // [S] a loop's header, a region's entry
  std::vector<uint32_t> SetExit;     // [S] a region's exit block (not a member), or NoIndex
  std::vector<uint32_t> FirstMember; // [S + 1]
  std::vector<uint32_t> Member;      // blocks in layout order

  Form form() const { return static_cast<Form>(Header[0]); }
  uint32_t entityCount() const { return Header[1]; }
  uint32_t absentEntity() const { return Header[2]; }
  size_t functions() const { return Declaration.size(); }
  size_t blocks() const { return BlockNames.size(); }
  size_t instructions() const { return Pattern.size(); }
  size_t patterns() const { return Opcode.size(); }
  size_t sets() const { return SetKinds.size(); }
  bool hasDefinitions() const { return !FirstOperand.empty(); }

  /// The arrays one after the other, each as a 64-bit byte count and its bytes, in the host's byte order.
  std::string serialize() const;
  /// The walk that serialize() wrote. The writer may have been damaged by a hostile module, so every index is
  /// checked. Throws ReadError.
  static Walk deserialize(std::string_view Data);

private:
  template <typename WalkType, typename Visitor> static void eachArray(WalkType &Self, Visitor &&Visit);
  void check() const;
};

/// Fills a Walk; interns patterns.
class WalkBuilder {
public:
  WalkBuilder(Form Kind, uint32_t EntityCount, uint32_t AbsentEntity, bool WithDefinitions);
  ~WalkBuilder();

  void beginFunction(std::string_view Name, bool IsDeclaration);
  void beginBlock(std::string_view Name);
  /// `Operands` are entity ids; `Definitions` is parallel to it, or empty.
  void addInstruction(uint16_t Opcode, uint16_t Type, uint16_t Predicate,
                      const std::vector<uint16_t> &Operands, const std::vector<uint32_t> &Definitions,
                      bool IsSkipped);
  void addVisit(uint32_t Block);
  void endFunction();
  Walk finish();

  Walk &walk() { return Result; }

private:
  struct PatternIndex;
  uint64_t hashFunction(size_t Function) const;
  Walk Result;
  bool WithDefinitions;
  std::unique_ptr<PatternIndex> Patterns;
  std::vector<uint16_t> Key;
};

} // namespace mlgo
