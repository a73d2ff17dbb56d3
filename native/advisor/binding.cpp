#include "binding.h"

#include "failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace mlgo {

static bool agree(const TensorSpec &One, const TensorSpec &Other) {
  bool BothScalar = One.getElementCount() == 1 && Other.getElementCount() == 1;
  return One.type() == Other.type() && (BothScalar || One.shape() == Other.shape());
}

Expected<Binding> bindByName(const CompiledPolicy &Policy, ArrayRef<TensorSpec> Offered) {
  Binding Result;
  for (unsigned I = 0; I < Policy.inputs().size(); ++I) {
    const TensorSpec &Input = Policy.inputs()[I];
    const auto *Found = find_if(Offered, [&](const TensorSpec &Spec) { return Spec.name() == Input.name(); });
    if (Found == Offered.end()) {
      if (!Policy.hasDefault(I))
        return failure("policy " + Policy.name() + " needs the feature " + Input.name() +
                       ", which this compiler does not send");
      Result.push_back(-1);
      continue;
    }
    if (!agree(Input, *Found))
      return failure("policy " + Policy.name() + " wants " + Input.name() + " as " + typeText(Input) +
                     ", this compiler sends " + typeText(*Found));
    Result.push_back(Found - Offered.begin());
  }
  return Result;
}

template <typename T> Error checkDecision(const CompiledPolicy &Policy, StringRef Problem) {
  if (Policy.problem() != Problem)
    return failure("policy " + Policy.name() + " is for " + Policy.problem() + ", not for " + Problem);
  const TensorSpec &Decision = Policy.outputs().front();
  if (!Decision.isElementType<T>() || Decision.getElementCount() != 1)
    return failure("policy " + Policy.name() + " decides with " + typeText(Decision) +
                   ", and one number of another type is wanted");
  return Error::success();
}

template Error checkDecision<int64_t>(const CompiledPolicy &, StringRef);
template Error checkDecision<float>(const CompiledPolicy &, StringRef);

} // namespace mlgo
