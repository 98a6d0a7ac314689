// A model of your own in managed memory: layers of causal attention over bytes.
//
//   bazel run //examples/custom_model -- [TEXT_FILE]
#include <castor/castor.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace {

using namespace castor;  // NOLINT: a program's own file
constexpr int64_t kLength = 64, kWidth = 128, kHeads = 4;
constexpr char kText[] =
    "Tyger Tyger, burning bright, in the forests of the night; what immortal "
    "hand or eye, could frame thy fearful symmetry?\n";

struct Block {
  std::string name;
  nn::LayerNorm norm{name + ".norm", kWidth};
  nn::Linear qkv{name + ".qkv", kWidth, 3 * kWidth};
  nn::Linear out{name + ".out", kWidth, kWidth};

  absl::StatusOr<Tensor> operator()(Engine& e, const Tensor& x) const {
    CASTOR_ASSIGN_OR_RETURN(Tensor y, norm(e, x));
    CASTOR_ASSIGN_OR_RETURN(y, qkv(e, y));
    CASTOR_ASSIGN_OR_RETURN(
        y, ops::CausalAttention(e, y, kHeads, 0.1f, name + ".attention"));
    CASTOR_ASSIGN_OR_RETURN(
        y, ops::Activate(e, y, ops::Activation::kGeluTanh, name + ".gelu"));
    CASTOR_ASSIGN_OR_RETURN(y, out(e, y));
    return ops::Dropout(e, y, x, 0.1f, name + ".residual");
  }
};

struct ByteModel final : Model {
  absl::StatusOr<Tensor> Loss(Engine& e, const Tensor& tokens,
                              const Tensor& targets) override {
    CASTOR_ASSIGN_OR_RETURN(Tensor x, bytes(e, tokens));
    CASTOR_ASSIGN_OR_RETURN(x, positions(e, std::move(x)));
    for (const Block& block : blocks) {  // computed again in backward
      auto run = [&e, &block](const Tensor& in) { return block(e, in); };
      CASTOR_ASSIGN_OR_RETURN(x, Checkpoint(e, x, run));
    }
    CASTOR_ASSIGN_OR_RETURN(x, norm(e, x));
    return ops::HeadLoss(e, x, bytes.weight(), targets);  // tied
  }
  nn::Embedding bytes{"bytes", 256, kWidth};
  nn::PositionEmbedding positions{"positions", kLength, kWidth};
  std::vector<Block> blocks{Block{"h.0"}, Block{"h.1"}, Block{"h.2"}};
  nn::LayerNorm norm{"norm", kWidth};
};

absl::Status Train(const std::string& text) {
  if (text.size() <= kLength) return absl::OutOfRangeError("text too short");
  Engine engine(DType::kFloat32, /*seed=*/1);
  ZeroInit scope(engine);  // parameters are born inside chunks
  ByteModel model;
  TrainerOptions options;
  options.shape = {.batch = 4, .length = kLength};
  options.learning_rate = [](int64_t) { return 3e-3; };
  options.memory.device_bytes = 2 << 20;  // all that the device may hold
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Create(&engine, &model, options));
  InitialValues values(engine.seed());
  CASTOR_RETURN_IF_ERROR(trainer->Initialize(values));
  size_t sample = 0;
  auto next = [&]() -> absl::StatusOr<MicroBatch> {
    MicroBatch batch;
    for (int64_t i = 0; i < options.shape.batch; ++i) {
      const size_t start = sample++ * 31 % (text.size() - kLength);
      const auto* at = reinterpret_cast<const uint8_t*>(text.data()) + start;
      batch.tokens.insert(batch.tokens.end(), at, at + kLength);
      batch.targets.insert(batch.targets.end(), at + 1, at + 1 + kLength);
    }
    return batch;
  };
  for (int step = 1; step <= 100; ++step) {
    CASTOR_ASSIGN_OR_RETURN(const double loss, trainer->Step(next));
    if (step % 10 == 1) std::printf("step %2d  loss %.4f\n", step, loss);
  }
  std::printf("device peak %s, unmanaged %s\n",
              FormatBytes(trainer->arena_stats().peak_bytes).c_str(),
              FormatBytes(trainer->admission().unmanaged_device_bytes).c_str());
  return trainer->Drain();
}

}  // namespace

int main(int argc, char** argv) {
  std::ostringstream text;
  if (argc == 1) text << kText;
  if (argc > 1) text << std::ifstream(argv[1]).rdbuf();
  const absl::Status status =
      text ? Train(text.str())
           : absl::NotFoundError(std::string(argv[1]) +
                                 ": no file that can be read, or empty");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
