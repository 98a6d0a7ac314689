// Documents that share rows are trained on as if each had a row of its own:
// the same loss and gradients, within rounding, on the host and with the GPU's
// programs, in models of every family. (That placement and ranks do not show in
// their bits: promises_test.)
//
// Both ways form the same sums. They differ in where in a tile a document's
// first token stands, so in the order of the terms of the sums over its tokens
// (attention's, and those of parameters' gradients), and so in their rounding:
// a sum of n terms is off by at most n u times the sum of their magnitudes
// (Higham, "Accuracy and stability of numerical algorithms", (3.5)), u = 2^-24.
// A gradient sums over fewer than 64 tokens what came through fewer than 8
// sums of fewer than 64 terms on its way, so 2 * 9 * 64 u = 7e-5 of the model's
// largest gradient is a bound, where terms do not grow beyond the sums; what is
// required is 1e-5, which holds since roundings do not all go one way. (A share
// of a parameter's own largest gradient would say nothing of those whose terms
// cancel, as a key's bias, which a softmax does not see.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "run/optim/adam/adam.h"
#include "tests/random.h"
#include "tests/random_architecture.h"
#include "tests/test_machine.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr double kTolerance = 1e-5;

// Documents of tokens and targets, in rows of `length`.
struct Documents {
  int64_t length = 0;
  std::vector<std::vector<std::vector<std::pair<int32_t, int32_t>>>> rows;
};

Documents RandomDocuments(int64_t length, int64_t vocabulary, int64_t labels,
                          Random& random) {
  Documents documents = {.length = length};
  documents.rows.resize(3);
  for (auto& row : documents.rows) {
    // Some rows end with padding.
    int64_t left = length - random.Uniform(0, length / 4);
    while (left > 0) {
      auto& document = row.emplace_back(random.Uniform(1, left));
      left -= static_cast<int64_t>(document.size());
      for (auto& [token, target] : document) {
        token = static_cast<int32_t>(random.Uniform(0, vocabulary - 1));
        target = static_cast<int32_t>(random.Uniform(0, labels - 1));
      }
      document.back().second = -100;
    }
  }
  // So that something is learned, and a document sees its own begin.
  documents.rows[0][0][0].second = 0;
  return documents;
}

// A row for each document, padded to `length`; with `apart` what pads it is no
// part of the document, which only a model that sees all of a row tells.
MicroBatch Apart(const Documents& documents, int64_t length,
                 bool apart = false) {
  MicroBatch batch;
  for (const auto& row : documents.rows) {
    for (const auto& document : row) {
      for (int64_t i = 0; i < length; ++i) {
        const bool inside = i < static_cast<int64_t>(document.size());
        batch.tokens.push_back(inside ? document[i].first : 0);
        batch.targets.push_back(inside ? document[i].second : -100);
        if (!apart) continue;
        const auto at = static_cast<int32_t>(i);
        const auto size = static_cast<int32_t>(document.size());
        batch.documents.push_back(inside ? DocumentRange{0, size}
                                         : DocumentRange{at, at + 1});
      }
    }
  }
  return batch;
}

MicroBatch Apart(const Documents& documents) {
  return Apart(documents, documents.length);
}

MicroBatch Together(const Documents& documents) {
  MicroBatch batch;
  for (const auto& row : documents.rows) {
    int32_t at = 0;
    for (const auto& document : row) {
      const auto size = static_cast<int32_t>(document.size());
      for (const auto& [token, target] : document) {
        batch.tokens.push_back(token);
        batch.targets.push_back(target);
        batch.documents.push_back({at, at + size});
      }
      at += size;
    }
    for (; at < documents.length; ++at) {
      batch.tokens.push_back(0);
      batch.targets.push_back(-100);
      batch.documents.push_back({at, at + 1});
    }
  }
  return batch;
}

// Where a token has a target, it has one of each other term of the loss, too.
MicroBatch WithTerms(const TrainingCase& c, MicroBatch batch) {
  std::vector<int32_t> others;
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    others.push_back(batch.targets[i] == -100 ? -100 : batch.tokens[i] % 2);
  }
  batch.other_targets.resize(TermsOf(c) - 1, others);
  FitTargets(c, c.options.shape.length, &batch);
  return batch;
}

struct Gradients {
  double loss = 0;
  double evaluation_loss = 0;
  std::map<std::string, std::vector<float>> of;  // parameters, halved
};

absl::StatusOr<Gradients> GradientsOf(TrainingCase c, MicroBatch batch) {
  c.steps = 1;
  c.options.shape.batch =
      static_cast<int64_t>(batch.tokens.size()) / c.options.shape.length;
  c.options.shape.documents = !batch.documents.empty();
  c.options.eval_batch = c.options.shape.batch;
  // After one step m is half of the gradient.
  AdamOptions adam;
  adam.betas[0] = 0.5;
  c.options.optimizer.rule = std::make_shared<Adam>(adam);
  c.options.learning_rate = [](int64_t) { return 0.0; };
  c.data = [&](int64_t) { return batch; };
  Gradients result;
  c.after_step = [&](Trainer& trainer, int64_t) -> absl::Status {
    const auto loss = trainer.Evaluate(
        1, [&]() -> absl::StatusOr<MicroBatch> { return batch; });
    if (loss.ok()) result.evaluation_loss = *loss;
    return loss.status();
  };
  std::vector<StatePiece> pieces;
  const auto run = RunRank(c, {}, nullptr, &pieces);
  if (!run.ok()) return run.status();
  if (run->refusal.has_value()) {
    return absl::ResourceExhaustedError(run->refusal_message);
  }
  result.loss = run->losses[0];
  for (const StatePiece& piece : pieces) {
    if (piece.part != StatePart::Slot(0)) continue;
    std::vector<float>& values = result.of[piece.parameter];
    values.insert(values.end(), piece.values.begin(), piece.values.end());
  }
  return result;
}

// The greatest difference of two gradients of a parameter, as a share of the
// model's greatest gradient.
double Difference(const Gradients& a, const Gradients& b) {
  double apart = 0, largest = 0;
  for (const auto& [name, expected] : a.of) {
    const std::vector<float>& got = b.of.at(name);
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max<double>(largest, std::abs(expected[i]));
      apart = std::max<double>(apart, std::abs(expected[i] - got[i]));
    }
  }
  return apart / largest;
}

std::shared_ptr<const Architecture> WithoutDropout(
    std::shared_ptr<const Architecture> architecture) {
  const OrderedJson keys = architecture->ToJson();
  for (const auto& [key, value] : keys.items()) {
    const bool drops =
        absl::StrContains(key, "dropout") || absl::EndsWith(key, "_pdrop");
    if (drops) architecture = WithKey(architecture, key, 0.0);
  }
  return architecture;
}

models::Gpt2Config SmallGpt2(int64_t positions) {
  models::Gpt2Config model;
  model.n_layer = 2;
  model.n_head = 2;
  model.n_embd = 32;
  model.n_positions = positions;
  model.vocab_size = 64;
  model.resid_pdrop = model.embd_pdrop = model.attn_pdrop = 0;
  model.initializer_range = 0.1;
  return model;
}

TEST(Packing, GivesTheGradientsOfRowsOfTheirOwnInEveryFamily) {
  uint64_t seed = 0;
  for (const models::Family* family : models::Families()) {
    for (int model = 0; model < 3; ++model) {
      Random random(++seed);
      TrainingCase c;
      c.seed = seed;
      if (family == models::Families()[0]) {
        c.model = SmallGpt2(13);
      } else {
        c.architecture = WithoutDropout(RandomArchitecture(*family, random));
      }
      c.options.memory.policy = FindPolicy("cpu");
      c.options.scribble_freed_memory = true;
      c.options.activation_checkpointing = ActivationCheckpointing::kBlock;
      const int64_t length =
          std::min<int64_t>(13, ModelConfigOf(c).architecture->positions());
      c.options.shape = {.batch = 1, .length = length, .terms = TermsOf(c)};
      const Documents documents =
          RandomDocuments(length, VocabularyOf(c), LabelsOf(c), random);
      for (const bool gpu : {false, true}) {
        const auto on = [&](TrainingCase x) {
          return gpu ? OnTestMachine(std::move(x)) : x;
        };
        SCOPED_TRACE(::testing::Message()
                     << ModelConfigOf(c).architecture->ToJson().dump()
                     << (gpu ? " GPU" : " host"));
        const bool whole =
            ModelConfigOf(c).architecture->task() != ModelTask::kNextToken;
        const auto apart = GradientsOf(
            on(c), WithTerms(c, Apart(documents, documents.length, whole)));
        ASSERT_TRUE(apart.ok()) << apart.status();
        const MicroBatch batch = WithTerms(c, Together(documents));
        const auto together = GradientsOf(on(c), batch);
        ASSERT_TRUE(together.ok()) << together.status();
        EXPECT_NEAR(together->loss, apart->loss, kTolerance * apart->loss);
        EXPECT_NEAR(together->evaluation_loss, apart->evaluation_loss,
                    kTolerance * apart->evaluation_loss);
        EXPECT_LE(Difference(*apart, *together), kTolerance);
        // Documents that see each other are told from these.
        const bool shared = std::any_of(
            documents.rows.begin(), documents.rows.end(), [](const auto& row) {
              return row.size() > 1 && row.back().size() > 1;
            });
        if (!shared || gpu) continue;
        MicroBatch one = batch;
        one.documents.clear();
        FitTargets(c, length, &one);
        const auto seeing = GradientsOf(c, one);
        ASSERT_TRUE(seeing.ok()) << seeing.status();
        EXPECT_GT(Difference(*apart, *seeing), 100 * kTolerance);
      }
    }
  }
}

// To how many tokens samples are padded shows in no loss and no gradient: sums
// over tokens have more terms, which are 0.
TEST(Padding, ChangesNoLossAndNoGradient) {
  for (const bool gpu : {false, true}) {
    Random random(11);
    TrainingCase c;
    c.model = SmallGpt2(150);
    c.options.memory.policy = FindPolicy("cpu");
    const Documents documents = RandomDocuments(40, 64, 64, random);
    const auto padded_to = [&](int64_t length) {
      TrainingCase padded = c;
      padded.options.shape = {.batch = 1, .length = length};
      return GradientsOf(gpu ? OnTestMachine(std::move(padded)) : padded,
                         Apart(documents, length));
    };
    const auto little = padded_to(40);
    ASSERT_TRUE(little.ok()) << little.status();
    for (const int64_t length : {48, 150}) {
      const auto much = padded_to(length);
      ASSERT_TRUE(much.ok()) << much.status();
      EXPECT_NEAR(much->loss, little->loss, kTolerance * little->loss);
      EXPECT_NEAR(much->evaluation_loss, little->evaluation_loss,
                  kTolerance * little->evaluation_loss);
      EXPECT_LE(Difference(*little, *much), kTolerance) << gpu << length;
    }
  }
}

// Rows of several tiles of the kernels, and on the GPU its matrix units.
TEST(Packing, GivesTheGradientsOfRowsOfTheirOwnAcrossTiles) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Random random(7);
    TrainingCase c;
    c.model = SmallGpt2(150);
    c.dtype = dtype;
    c.options.memory.policy = FindPolicy("cpu");
    c.options.shape = {.batch = 1, .length = 150};
    const Documents documents = RandomDocuments(150, 64, 64, random);
    for (const bool gpu : {false, true}) {
      const auto on = [&](TrainingCase x) {
        return gpu ? OnTestMachine(std::move(x)) : x;
      };
      const auto apart = GradientsOf(on(c), Apart(documents));
      const auto together = GradientsOf(on(c), Together(documents));
      ASSERT_TRUE(apart.ok()) << apart.status();
      ASSERT_TRUE(together.ok()) << together.status();
      // In bf16 values are rounded to 2^-9 of themselves after each operator,
      // and a sum that rounds to another one takes that on.
      const double tolerance =
          dtype == DType::kFloat32 ? 3 * kTolerance : 0x1p-5;
      EXPECT_NEAR(together->loss, apart->loss, tolerance * apart->loss);
      EXPECT_LE(Difference(*apart, *together), tolerance) << gpu;
    }
  }
}

}  // namespace
}  // namespace castor::testing
