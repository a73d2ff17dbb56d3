#include "compiled_policy.h"

#include "failure.h"
#include "policy_abi.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <dlfcn.h>
#include <mutex>

using namespace llvm;

namespace mlgo {

// Beyond these a library is taken for damaged: LLVM's largest tensor has 33 elements, embeddings some
// hundreds.
static constexpr uint32_t MostTensors = 4096, HighestRank = 8;
static constexpr int64_t MostElements = 1 << 20;

struct CompiledPolicy::Interface {
  void *Library = nullptr;
  decltype(&mlgo_abi_version) AbiVersion;
  decltype(&mlgo_policy_name) PolicyName;
  decltype(&mlgo_problem) Problem;
  decltype(&mlgo_num_inputs) NumInputs, NumOutputs;
  decltype(&mlgo_input_name) InputName, InputType, OutputName, OutputType;
  decltype(&mlgo_input_rank) InputRank, OutputRank;
  decltype(&mlgo_input_shape) InputShape, OutputShape;
  decltype(&mlgo_create) Create;
  decltype(&mlgo_destroy) Destroy;
  decltype(&mlgo_arg_data) ArgData, ResultData;
  decltype(&mlgo_input_default) InputDefault;
  decltype(&mlgo_isa) Isa;
  decltype(&mlgo_run) Run;
  decltype(&mlgo_error) Wrong;

  template <typename Function> Error bind(Function &Target, const char *Symbol) {
    Target = reinterpret_cast<Function>(dlsym(Library, Symbol));
    return Target ? Error::success() : failure(Twine("it does not export ") + Symbol);
  }

  Error bindAll() {
    // The first failure is the one that is told.
    Error Result = Error::success();
    auto Bind = [&](auto &Target, const char *Symbol) {
      if (!Result)
        Result = bind(Target, Symbol);
    };
    Bind(AbiVersion, "mlgo_abi_version");
    Bind(PolicyName, "mlgo_policy_name");
    Bind(Problem, "mlgo_problem");
    Bind(NumInputs, "mlgo_num_inputs");
    Bind(NumOutputs, "mlgo_num_outputs");
    Bind(InputName, "mlgo_input_name");
    Bind(InputType, "mlgo_input_type");
    Bind(InputRank, "mlgo_input_rank");
    Bind(InputShape, "mlgo_input_shape");
    Bind(OutputName, "mlgo_output_name");
    Bind(OutputType, "mlgo_output_type");
    Bind(OutputRank, "mlgo_output_rank");
    Bind(OutputShape, "mlgo_output_shape");
    Bind(Create, "mlgo_create");
    Bind(Destroy, "mlgo_destroy");
    Bind(ArgData, "mlgo_arg_data");
    Bind(ResultData, "mlgo_result_data");
    Bind(InputDefault, "mlgo_input_default");
    Bind(Isa, "mlgo_isa");
    Bind(Run, "mlgo_run");
    Bind(Wrong, "mlgo_error");
    return Result;
  }
};

std::optional<TensorSpec> makeSpec(StringRef Name, StringRef Type, const std::vector<int64_t> &Shape) {
#define MAKE_IF_NAMED(T, Kind)                                                                               \
  if (Type == #T)                                                                                            \
    return TensorSpec::createSpec<T>(Name.str(), Shape);
  SUPPORTED_TENSOR_TYPES(MAKE_IF_NAMED)
#undef MAKE_IF_NAMED
  return std::nullopt;
}

std::string typeText(const TensorSpec &Spec) {
  std::string Text;
#define NAME_IF_TYPED(T, Kind)                                                                               \
  if (Spec.isElementType<T>())                                                                               \
    Text = #T;
  SUPPORTED_TENSOR_TYPES(NAME_IF_TYPED)
#undef NAME_IF_TYPED
  Text += "[";
  for (const auto &[Position, Dimension] : enumerate(Spec.shape()))
    Text += (Position ? "," : "") + std::to_string(Dimension);
  return Text + "]";
}

/// One tensor as a library describes it.
static Expected<TensorSpec> readSpec(const char *Name, const char *Type, uint32_t Rank,
                                     const int64_t *Shape) {
  if (!Name || !Type || !*Name || (Rank && !Shape) || Rank > HighestRank)
    return failure("the description of a tensor is damaged");
  std::vector<int64_t> Dimensions(Shape, Shape + Rank);
  int64_t Elements = 1;
  for (int64_t Dimension : Dimensions) {
    if (Dimension < 1 || Dimension > MostElements)
      return failure(Twine("tensor ") + Name + " has an impossible shape");
    Elements *= Dimension;
    if (Elements > MostElements)
      return failure(Twine("tensor ") + Name + " has an impossible shape");
  }
  std::optional<TensorSpec> Spec = makeSpec(Name, Type, Dimensions);
  if (!Spec)
    return failure(Twine("tensor ") + Name + " has the unknown type " + Type);
  return *Spec;
}

Error CompiledPolicy::open() {
  Functions = std::make_shared<Interface>();
  Functions->Library = dlopen(Path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!Functions->Library)
    return failure(Twine("it cannot be loaded: ") + dlerror());
  if (Error Missing = Functions->bindAll())
    return Missing;
  uint32_t Version = Functions->AbiVersion();
  if (Version != MLGO_POLICY_ABI_VERSION)
    return failure("it has interface version " + Twine(Version) + ", this plugin wants " +
                   Twine(MLGO_POLICY_ABI_VERSION) + "; compile the policy again");
  return describe();
}

Error CompiledPolicy::describe() {
  const Interface &F = *Functions;
  Name = F.PolicyName();
  Problem = F.Problem();
  uint32_t NumInputs = F.NumInputs(), NumOutputs = F.NumOutputs();
  if (NumInputs > MostTensors || NumOutputs > MostTensors || NumOutputs == 0)
    return failure("it declares " + Twine(NumInputs) + " inputs and " + Twine(NumOutputs) + " outputs");
  for (uint32_t I = 0; I < NumInputs; ++I) {
    Expected<TensorSpec> Spec = readSpec(F.InputName(I), F.InputType(I), F.InputRank(I), F.InputShape(I));
    if (!Spec)
      return Spec.takeError();
    Inputs.push_back(*Spec);
  }
  for (uint32_t I = 0; I < NumOutputs; ++I) {
    Expected<TensorSpec> Spec = readSpec(F.OutputName(I), F.OutputType(I), F.OutputRank(I), F.OutputShape(I));
    if (!Spec)
      return Spec.takeError();
    Outputs.push_back(*Spec);
  }
  return Error::success();
}

Expected<const CompiledPolicy *> CompiledPolicy::load(const std::string &Path) {
  static std::mutex Guard;
  static StringMap<std::unique_ptr<CompiledPolicy>> Loaded;
  std::lock_guard<std::mutex> Lock(Guard);
  std::unique_ptr<CompiledPolicy> &Slot = Loaded[Path];
  if (!Slot) {
    std::unique_ptr<CompiledPolicy> Policy(new CompiledPolicy(Path));
    if (Error Failed = Policy->open())
      return failure("policy " + Twine(Path) + " is not usable: " + toString(std::move(Failed)));
    Slot = std::move(Policy);
  }
  return Slot.get();
}

bool CompiledPolicy::hasDefault(unsigned Index) const { return Functions->InputDefault(Index) != nullptr; }

Expected<std::unique_ptr<PolicyInstance>> CompiledPolicy::instantiate() const {
  std::unique_ptr<PolicyInstance> Instance(new PolicyInstance(*this));
  if (!Instance->Handle)
    return failure("policy " + Twine(Path) + " cannot run here: it was compiled for " + Functions->Isa());
  return Expected<std::unique_ptr<PolicyInstance>>(std::move(Instance));
}

PolicyInstance::PolicyInstance(const CompiledPolicy &Policy) : Policy(Policy) {
  const CompiledPolicy::Interface &F = *Policy.Functions;
  Handle = F.Create();
  if (!Handle)
    return;
  for (unsigned I = 0; I < Policy.inputs().size(); ++I)
    InputData.push_back(F.ArgData(Handle, I));
  for (unsigned I = 0; I < Policy.outputs().size(); ++I) {
    OutputData.push_back(F.ResultData(Handle, I));
    if (Policy.outputs()[I].isElementType<float>())
      FloatOutputs.push_back(I);
  }
}

PolicyInstance::~PolicyInstance() {
  if (Handle)
    Policy.Functions->Destroy(Handle);
}

const char *PolicyInstance::run() {
  try {
    Policy.Functions->Run(Handle);
  } catch (...) {
    return "the policy threw an exception";
  }
  if (const char *Wrong = Policy.Functions->Wrong(Handle))
    return Wrong;
  for (unsigned I : FloatOutputs) {
    const auto *Values = static_cast<const float *>(OutputData[I]);
    for (size_t E = 0; E < Policy.outputs()[I].getElementCount(); ++E)
      if (std::isnan(Values[E]))
        return "the policy answered NaN";
  }
  return nullptr;
}

} // namespace mlgo
