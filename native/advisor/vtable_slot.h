// Finding and replacing one virtual function of a class of LLVM's whose vtable is at hand.
#pragma once

#include <cstddef>
#include <optional>

namespace mlgo {

/// A vtable as the Itanium C++ ABI lays it out, from the address point on: two destructors, then the
/// functions as declared.
using VTable = void **;

/// The vtable that an object uses.
template <typename Object> VTable vtableOf(const Object &Of) {
  return *reinterpret_cast<VTable const *>(reinterpret_cast<const void *>(&Of));
}

/// The slot in which two vtables of `Size` functions differ, their destructors aside; none unless it is
/// exactly one.
///
/// Two classes that override one and the same function of a common base tell its slot this way.
std::optional<size_t> onlyDifference(VTable One, VTable Other, size_t Size);

/// Writes `Function` into a slot; the page is writable only meanwhile. False when the system does not allow
/// it.
bool replaceSlot(VTable Table, size_t Slot, void *Function);

} // namespace mlgo
