// A policy as a shared library of the C interface in policy_abi.h.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlgo {

class PolicyInstance;

/// A loaded library; it stays loaded until the process ends.
class CompiledPolicy {
public:
  /// The policy in the file `Path`, loaded once per process.
  /// Fails when the file is no shared library, not one of ours, or of another interface version.
  static llvm::Expected<const CompiledPolicy *> load(const std::string &Path);

  llvm::StringRef path() const { return Path; }
  llvm::StringRef name() const { return Name; }
  llvm::StringRef problem() const { return Problem; }
  const std::vector<llvm::TensorSpec> &inputs() const { return Inputs; }
  /// Output 0 is the decision.
  const std::vector<llvm::TensorSpec> &outputs() const { return Outputs; }

  /// True when the policy can do without input `Index`: its instances hold a default there.
  bool hasDefault(unsigned Index) const;

  /// Fails when this CPU lacks instructions that the policy was compiled for, or memory is short.
  llvm::Expected<std::unique_ptr<PolicyInstance>> instantiate() const;

private:
  friend class PolicyInstance;
  struct Interface;

  explicit CompiledPolicy(std::string Path) : Path(std::move(Path)) {}
  llvm::Error open();
  llvm::Error describe();

  std::string Path, Name, Problem;
  std::vector<llvm::TensorSpec> Inputs, Outputs;
  std::shared_ptr<Interface> Functions;
};

/// One evaluator with its own buffers, for one thread at a time.
class PolicyInstance {
public:
  ~PolicyInstance();
  PolicyInstance(const PolicyInstance &) = delete;
  PolicyInstance &operator=(const PolicyInstance &) = delete;

  const CompiledPolicy &policy() const { return Policy; }
  void *input(unsigned Index) { return InputData[Index]; }
  const void *output(unsigned Index) const { return OutputData[Index]; }

  /// Evaluates; null when all is well, else what went wrong: the policy's own error, an exception, or a float
  /// output that is NaN.
  const char *run();

private:
  friend class CompiledPolicy;
  explicit PolicyInstance(const CompiledPolicy &Policy);

  const CompiledPolicy &Policy;
  void *Handle;
  std::vector<void *> InputData, OutputData;
  std::vector<unsigned> FloatOutputs;
};

/// `int64_t[1,33]`: type and shape of a tensor, for messages.
std::string typeText(const llvm::TensorSpec &Spec);

/// The tensor that a type's name and a shape describe; none when the name is not one of LLVM's ten.
std::optional<llvm::TensorSpec> makeSpec(llvm::StringRef Name, llvm::StringRef Type,
                                         const std::vector<int64_t> &Shape);

} // namespace mlgo
