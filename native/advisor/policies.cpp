#include "policies.h"

#include "failure.h"
#include "options.h"
#include "per_compile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace mlgo {

static StringMap<PolicyChoice> choosePolicies() {
  StringMap<PolicyChoice> Choices;
  for (StringRef Problem : {"inlining", "eviction", "priority"})
    Choices[Problem];
  for (const std::string &Path : advisorOptions().Policies) {
    Expected<const CompiledPolicy *> Policy = CompiledPolicy::load(Path);
    if (!Policy) {
      Choices["inlining"].Broken = toString(Policy.takeError());
      continue;
    }
    auto Choice = Choices.find((*Policy)->problem());
    if (Choice == Choices.end())
      Choices["inlining"].Broken =
          ("policy " + Path + " is for the unknown problem '" + (*Policy)->problem() + "'").str();
    else if (Choice->second.Policy && Choice->second.Policy != *Policy)
      Choice->second.Broken =
          ("two policies for " + (*Policy)->problem() + ": " + Choice->second.Policy->path() + " and " + Path)
              .str();
    else
      Choice->second.Policy = *Policy;
  }
  return Choices;
}

const PolicyChoice &policyFor(StringRef Problem) {
  static PerCompile<StringMap<PolicyChoice>> Choices(choosePolicies);
  return Choices.get().find(Problem)->second;
}

namespace {
struct Loaded {
  std::optional<Overrides> Fixed;
  std::string Wrong;
};
} // namespace

static Loaded loadOverrides() {
  Loaded Result;
  const std::string &Path = advisorOptions().Overrides;
  if (Path.empty())
    return Result;
  Expected<Overrides> Fixed = Overrides::read(Path);
  if (Fixed)
    Result.Fixed = std::move(*Fixed);
  else
    Result.Wrong = toString(Fixed.takeError());
  return Result;
}

bool overridesAreFor(StringRef Problem) {
  return !advisorOptions().Overrides.empty() && is_contained(advisorOptions().Problems, Problem.str());
}

Expected<const Overrides *> fixedDecisions(StringRef Problem) {
  if (!overridesAreFor(Problem))
    return nullptr;
  static PerCompile<Loaded> Given(loadOverrides);
  const Loaded &Result = Given.get();
  if (!Result.Wrong.empty())
    return failure(Result.Wrong);
  return Result.Fixed ? &*Result.Fixed : nullptr;
}

} // namespace mlgo
