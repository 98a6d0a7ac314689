// Castor's LAMB against timm's. tests/fixtures/README.md says where the figures
// are from.
#include "run/optim/lamb/lamb.h"

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

TEST(Lamb, StepsAsTimmsDoes) {
  std::ifstream in("tests/fixtures/lamb/timm.json");
  const auto fixture = nlohmann::json::parse(in);
  const auto& options = fixture["options"];
  const std::vector<Values> start = fixture["start"];
  const std::vector<double> decays = fixture["decays"];
  ASSERT_EQ(fixture["runs"].size(), 4u);
  ThreadPool pool(2);
  double moved = 0;
  for (const auto& run : fixture["runs"]) {
    const Lamb lamb({.betas = options["betas"],
                     .eps = options["eps"],
                     .bias_correction = run["bias_correction"],
                     .max_coeff = run["max_coeff"],
                     .min_coeff = run["min_coeff"]});
    // One chunk, with each parameter at a tile's start.
    std::vector<UpdateRange> ranges;
    int64_t size = 0;
    for (size_t p = 0; p < start.size(); ++p) {
      const int64_t elements = static_cast<int64_t>(start[p].size());
      ranges.push_back({.begin = size,
                        .end = size + elements,
                        .parameter = static_cast<int64_t>(p),
                        .weight_decay = decays[p]});
      size += (elements + kernels::kNormTile - 1) / kernels::kNormTile *
              kernels::kNormTile;
    }
    Values payload(size), gradients(size), master(size), m(size), v(size);
    const auto place = [&](const std::vector<Values>& from, Values* to) {
      for (size_t p = 0; p < from.size(); ++p) {
        std::copy(from[p].begin(), from[p].end(),
                  to->begin() + ranges[p].begin);
      }
    };
    place(start, &master);
    const float scale = 1;
    UpdateArrays arrays = {
        .payload = reinterpret_cast<std::byte*>(payload.data()),
        .gradient_sum = gradients.data(),
        .gradient_scale = &scale,
        .states = {.master = reinterpret_cast<std::byte*>(master.data()),
                   .elements = size}};
    arrays.states.slots[Lamb::kM.slot()] =
        reinterpret_cast<std::byte*>(m.data());
    arrays.states.slots[Lamb::kV.slot()] =
        reinterpret_cast<std::byte*>(v.data());
    UpdateStep step = {.number = 0, .lr = options["lr"]};
    for (const auto& of_step : fixture["gradients"]) {
      place(of_step, &gradients);
      ++step.number;
      std::vector<kernels::ExactSum> sums(lamb.num_sums() * ranges.size());
      ASSERT_TRUE(
          lamb.Measure(step, ranges, arrays, sums.data(), {&pool}).ok());
      std::vector<double> values;
      for (const kernels::ExactSum& sum : sums) values.push_back(sum.Value());
      arrays.sums = values.data();
      ASSERT_TRUE(lamb.Update(step, ranges, arrays, {&pool}).ok());
    }
    const std::vector<std::vector<double>> expected = run["parameters"];
    for (size_t p = 0; p < start.size(); ++p) {
      for (size_t i = 0; i < start[p].size(); ++i) {
        // Values are of order 1; a step makes some ten roundings of 2^-24.
        EXPECT_NEAR(master[ranges[p].begin + i], expected[p][i],
                    5 * 10 * 0x1p-24 * std::max(1.0, std::fabs(expected[p][i])))
            << "parameter " << p << " element " << i;
        moved += std::fabs(expected[p][i] - start[p][i]);
      }
    }
  }
  EXPECT_GT(moved, 1);
}

}  // namespace
}  // namespace castor
