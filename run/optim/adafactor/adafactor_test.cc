// Castor's Adafactor against Hugging Face's. tests/fixtures/README.md says
// where the figures are from.
#include "run/optim/adafactor/adafactor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

using Values = std::vector<float>;

AdafactorOptions OptionsOf(const nlohmann::json& keys) {
  AdafactorOptions options;
  if (keys.contains("beta1")) options.beta1 = keys["beta1"].get<double>();
  if (keys.contains("eps")) keys["eps"].get_to(options.eps);
  const auto read = [&](const char* key, auto* to) {
    if (keys.contains(key)) keys[key].get_to(*to);
  };
  read("clip_threshold", &options.clip_threshold);
  read("decay_rate", &options.decay_rate);
  read("scale_parameter", &options.scale_parameter);
  read("relative_step", &options.relative_step);
  read("warmup_init", &options.warmup_init);
  return options;
}

// One chunk, with each parameter at a tile's start.
struct Chunk {
  explicit Chunk(const nlohmann::json& fixture) {
    const std::vector<std::vector<int64_t>> shapes = fixture["shapes"];
    for (size_t p = 0; p < shapes.size(); ++p) {
      const Margins margins = MarginsOf(shapes[p]);
      ranges.push_back({.begin = size,
                        .end = size + margins.elements(),
                        .parameter = static_cast<int64_t>(p),
                        .weight_decay = fixture["decays"][p],
                        .margins = margins,
                        .first_margin = num_margins});
      num_margins += margins.count();
      size += (margins.elements() + kernels::kNormTile - 1) /
              kernels::kNormTile * kernels::kNormTile;
    }
    for (Values* values : {&payload, &gradients, &master, &m}) {
      values->resize(size);
    }
    kept.resize(num_margins);
    factors.resize(num_margins);
  }
  void Place(const std::vector<Values>& from, Values* to) const {
    for (size_t p = 0; p < from.size(); ++p) {
      std::copy(from[p].begin(), from[p].end(), to->begin() + ranges[p].begin);
    }
  }
  void Step(const Adafactor& adafactor, const UpdateStep& step,
            const ExecContext& context) {
    const float scale = 1;
    UpdateArrays arrays = {
        .payload = reinterpret_cast<std::byte*>(payload.data()),
        .gradient_sum = gradients.data(),
        .gradient_scale = &scale,
        .states = {.master = reinterpret_cast<std::byte*>(master.data()),
                   .elements = size},
        .factors = factors.data()};
    arrays.states.slots[Adafactor::kM.slot()] =
        reinterpret_cast<std::byte*>(m.data());
    std::vector<kernels::ExactSum> margins(num_margins);
    ASSERT_TRUE(
        adafactor.MeasureMargins(step, ranges, arrays, margins.data(), context)
            .ok());
    for (const UpdateRange& range : ranges) {
      const int64_t first = range.first_margin;
      adafactor.UpdateMargins(step, {.margins = range.margins,
                                     .sums = &margins[first],
                                     .kept = &kept[first],
                                     .factors = &factors[first]});
    }
    std::vector<kernels::ExactSum> sums(adafactor.num_sums() * ranges.size());
    ASSERT_TRUE(
        adafactor.Measure(step, ranges, arrays, sums.data(), context).ok());
    std::vector<double> values;
    for (const kernels::ExactSum& sum : sums) values.push_back(sum.Value());
    arrays.sums = values.data();
    ASSERT_TRUE(adafactor.Update(step, ranges, arrays, context).ok());
  }

  std::vector<UpdateRange> ranges;
  int64_t size = 0;
  int64_t num_margins = 0;
  Values payload, gradients, master, m, kept, factors;
};

TEST(Adafactor, StepsAsTransformersDoes) {
  std::ifstream in("tests/fixtures/adafactor/transformers.json");
  const auto fixture = nlohmann::json::parse(in);
  const std::vector<Values> start = fixture["start"];
  ASSERT_EQ(fixture["runs"].size(), 4u);
  ThreadPool pool(2);
  double moved = 0;
  for (const auto& run : fixture["runs"]) {
    SCOPED_TRACE(run["options"].dump());
    const Adafactor adafactor(OptionsOf(run["options"]));
    Chunk chunk(fixture);
    chunk.Place(start, &chunk.master);
    UpdateStep step = {.number = 0, .lr = run["options"].value("lr", 1.0)};
    for (const auto& of_step : fixture["gradients"]) {
      chunk.Place(of_step, &chunk.gradients);
      ++step.number;
      chunk.Step(adafactor, step, {&pool});
    }
    const std::vector<std::vector<double>> expected = run["parameters"];
    for (size_t p = 0; p < start.size(); ++p) {
      for (size_t i = 0; i < start[p].size(); ++i) {
        // Values are of order 1; a step makes some ten roundings of 2^-24.
        EXPECT_NEAR(chunk.master[chunk.ranges[p].begin + i], expected[p][i],
                    6 * 10 * 0x1p-24 * std::max(1.0, std::fabs(expected[p][i])))
            << "parameter " << p << " element " << i;
        moved += std::fabs(expected[p][i] - start[p][i]);
      }
    }
  }
  EXPECT_GT(moved, 1);
}

}  // namespace
}  // namespace castor
