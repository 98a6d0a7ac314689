// Measures how long the values of a model take to come and go around its steps:
// filling parameters and optimizer states, and the SHA-256 of all parameters.
//
//   bazel run -c opt //benchmarks:start_and_end -- [--rounds N]
//       [--layers N] [--width N] [--vocabulary N] [--bf16]
//
// Each round makes a trainer anew, since pages that were used once cost less.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "base/thread_pool.h"
#include "benchmarks/seconds.h"
#include "benchmarks/synthetic.h"
#include "models/gpt2/gpt2.h"
#include "run/model/model_state.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

int Main(int argc, char** argv) {
  SyntheticRun run{12, 768, 50257, 1, 64};
  int64_t rounds = 5;
  bool bf16 = false;
  if (!TakeArguments("start_and_end", argc, argv, [&](int* at) {
        return TakeNumber("--rounds", argc, argv, at, &rounds) ||
               TakeFlag("--bf16", argv, at, &bf16) ||
               run.TakeArgument(argc, argv, at);
      })) {
    return 2;
  }
  std::vector<double> fill_s, hash_s;
  std::string hash;
  int64_t parameters = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    Engine engine(bf16 ? DType::kBFloat16 : DType::kFloat32, /*seed=*/1);
    const ZeroInit scope(engine);
    models::Gpt2 model(run.Model());
    TrainerOptions options;
    options.shape = run.Shape();
    options.memory.policy = FindPolicy("cpu");
    auto trainer = Trainer::Create(&engine, &model, std::move(options));
    CASTOR_CHECK(trainer.ok());
    InitialValues values(1);
    double start = Seconds();
    CASTOR_CHECK((*trainer)->Initialize(values).ok());
    fill_s.push_back(Seconds() - start);
    start = Seconds();
    const auto sum = ParametersSha256((*trainer)->parameters(),
                                      (*trainer)->store(), nullptr);
    hash_s.push_back(Seconds() - start);
    CASTOR_CHECK(sum.ok() && (hash.empty() || *sum == hash));
    hash = *sum;
    parameters = (*trainer)->layout().parameter_elements;
  }
  const auto print = [&](const char* name, const std::vector<double>& seconds) {
    const double median = Median(seconds);
    std::printf(
        "%-8s median %.3f s (%.3f to %.3f, %ld rounds), %.2f ns a "
        "parameter\n",
        name, median, *std::min_element(seconds.begin(), seconds.end()),
        *std::max_element(seconds.begin(), seconds.end()),
        static_cast<long>(rounds), 1e9 * median / parameters);
  };
  std::printf("%ld parameters, %s, %d processors, sha256 %s\n",
              static_cast<long>(parameters), bf16 ? "bf16" : "fp32",
              AvailableProcessors(), hash.c_str());
  print("fill", fill_s);
  print("sha256", hash_s);
  return 0;
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) { return castor::Main(argc, argv); }
