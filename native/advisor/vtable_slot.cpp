#include "vtable_slot.h"

#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace mlgo {

static constexpr size_t NumDestructors = 2;

std::optional<size_t> onlyDifference(VTable One, VTable Other, size_t Size) {
  std::optional<size_t> Found;
  for (size_t Slot = NumDestructors; Slot < Size; ++Slot) {
    if (One[Slot] == Other[Slot])
      continue;
    if (Found)
      return std::nullopt;
    Found = Slot;
  }
  return Found;
}

bool replaceSlot(VTable Table, size_t Slot, void *Function) {
  const auto PageSize = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto *Page = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(&Table[Slot]) & ~(PageSize - 1));
  if (::mprotect(Page, PageSize, PROT_READ | PROT_WRITE))
    return false;
  // One aligned word: a thread that reads it meanwhile sees the old function or the new one.
  __atomic_store_n(&Table[Slot], Function, __ATOMIC_RELEASE);
  // vtables lie in memory that the loader made read-only; leaving it writable is no error, only less strict.
  (void)::mprotect(Page, PageSize, PROT_READ);
  return true;
}

} // namespace mlgo
