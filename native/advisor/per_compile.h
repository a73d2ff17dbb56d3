// State of one compile. A clang compiles once and ends; the compile server goes on with the next module in
// the same process, and what the last one was asked for must not be taken for the next one's.
#pragma once

#include <mutex>
#include <optional>

namespace mlgo {

/// Which compile of this process runs; from 0.
unsigned compileNumber();

/// A value that is made when a compile first asks for it, and made anew in the next compile.
template <typename T> class PerCompile {
public:
  explicit PerCompile(T (*Make)()) : Make(Make) {}

  /// Valid until the next compile begins; the code generators of one compile may ask in several threads.
  T &get() {
    std::lock_guard<std::mutex> Lock(Guard);
    if (!Value || MadeIn != compileNumber()) {
      MadeIn = compileNumber();
      Value.reset(); // what the old value holds open is closed before the new one opens it again
      Value.emplace(Make());
    }
    return *Value;
  }

private:
  T (*const Make)();
  std::mutex Guard;
  std::optional<T> Value;
  unsigned MadeIn = 0;
};

} // namespace mlgo
