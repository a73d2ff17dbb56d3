// `loop decide POLICY.so OBSERVATIONS COUNT`: seconds a decision, every input stored anew.
// `loop bandwidth`: bytes a second that one core reads from its L1 cache.
#include "../../src/pymlgo/emit/templates/policy_abi.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <time.h>
#include <vector>

// CPU time, as other processes take turns with this one.
static double seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// The least time of many short rounds: another process can only add to it.
template <typename Round> static double least(Round round) {
  double best = 1e9;
  for (double end = seconds() + 1.0; seconds() < end;) {
    const double start = seconds();
    round();
    best = std::min(best, seconds() - start);
  }
  return best;
}

static double bandwidth() {
  typedef float Vector __attribute__((vector_size(32)));
  constexpr int kVectors = 512, kRepeats = 64; // 16 KiB, half of the smallest L1 in use
  alignas(64) static Vector data[kVectors];
  std::memset(data, 0, sizeof data);
  const double best = least([&] {
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      for (int at = 0; at < kVectors; at += 8) {
        const Vector *const from = data + at;
        asm volatile(
            "vmovaps %0, %%ymm0\n\tvmovaps %1, %%ymm1\n\tvmovaps %2, %%ymm2\n\tvmovaps %3, %%ymm3\n\t"
            "vmovaps %4, %%ymm4\n\tvmovaps %5, %%ymm5\n\tvmovaps %6, %%ymm6\n\tvmovaps %7, %%ymm7"
            :
            : "m"(from[0]), "m"(from[1]), "m"(from[2]), "m"(from[3]), "m"(from[4]), "m"(from[5]),
              "m"(from[6]), "m"(from[7])
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
      }
  });
  return double(sizeof data) * kRepeats / best;
}

template <typename Function> static Function *bound(void *library, const char *name) {
  void *const found = dlsym(library, name);
  if (!found)
    std::exit((std::fprintf(stderr, "%s is missing\n", name), 1));
  return reinterpret_cast<Function *>(found);
}
#define BOUND(name) const auto name = bound<decltype(::name)>(library, #name)

static double decide(const char *path, const char *observations, int count) {
  void *const library = dlopen(path, RTLD_NOW);
  if (!library)
    std::exit((std::fprintf(stderr, "%s\n", dlerror()), 1));
  BOUND(mlgo_create);
  BOUND(mlgo_run);
  BOUND(mlgo_arg_data);
  BOUND(mlgo_result_data);
  BOUND(mlgo_num_inputs);
  BOUND(mlgo_input_type);
  BOUND(mlgo_input_rank);
  BOUND(mlgo_input_shape);
  void *const instance = mlgo_create();
  struct Input {
    void *to;
    size_t bytes;
  };
  std::vector<Input> inputs;
  size_t total = 0;
  for (uint32_t input = 0; input < mlgo_num_inputs(); ++input) {
    size_t bytes = std::string(mlgo_input_type(input)) == "int64_t" ? 8 : 4;
    for (uint32_t axis = 0; axis < mlgo_input_rank(input); ++axis)
      bytes *= mlgo_input_shape(input)[axis];
    inputs.push_back({mlgo_arg_data(instance, input), bytes});
    total += bytes;
  }
  std::vector<char> data(total * count);
  std::ifstream(observations, std::ios::binary).read(data.data(), data.size());
  const auto *const decision = static_cast<const int64_t *>(mlgo_result_data(instance, 0));
  constexpr int kRound = 400;
  int64_t sum = 0;
  int at = 0;
  const double best = least([&] {
    at = at + kRound < count ? at : 0;
    for (int end = at + kRound; at < end; ++at) {
      const char *from = &data[total * at];
      for (const Input &input : inputs) {
        if (input.bytes == 8)
          std::memcpy(input.to, from, 8);
        else
          std::memcpy(input.to, from, input.bytes);
        from += input.bytes;
      }
      mlgo_run(instance);
      sum += *decision;
    }
  });
  asm volatile("" ::"r"(sum));
  return best / kRound;
}

int main(int argc, char **argv) {
  const bool decides = argc == 5 && std::string(argv[1]) == "decide";
  std::printf("%.12g\n", decides ? decide(argv[2], argv[3], std::atoi(argv[4])) : bandwidth());
}
