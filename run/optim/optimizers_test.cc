// Tests that every row of the table of optimizers must pass.
#include "run/optim/optimizers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/state_format.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<Config> Parse(const std::string& type,
                             const std::vector<std::string>& overrides = {}) {
  return ParseConfig(TestModels(),
                     absl::StrCat(R"({"model": {"n_positions": 8},
          "data": {"train": "a.txt"}, "steps": 10, "train_batch_size": 8,
          "optimizer": {"type": ")",
                                  type, R"(", "params": {"lr": 0.01}}})"),
                     "", overrides);
}

TEST(Optimizers, AreThoseThatAConfigurationNames) {
  std::set<absl::string_view> names;
  for (const OptimizerRow& row : Optimizers()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    const auto config = Parse(std::string(row.name));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->optimizer.rule->name(), row.name);
    EXPECT_EQ(config->optimizer.weight_decay, row.weight_decay);
    // Its parameters are known keys, and one with a typing error is not.
    const OrderedJson params = config->optimizer.rule->Params();
    for (const auto& [key, value] : params.items()) {
      const std::string path = absl::StrCat("optimizer.params.", key);
      const auto same =
          Parse(std::string(row.name), {absl::StrCat(path, "=", value.dump())});
      ASSERT_TRUE(same.ok()) << same.status();
      EXPECT_EQ(same->optimizer, config->optimizer);
      EXPECT_FALSE(Parse(std::string(row.name), {path + "=[true]"}).ok());
      EXPECT_FALSE(Parse(std::string(row.name), {path + "x=1"}).ok());
    }
    const std::string json = ConfigToJson(*config);
    const auto again = ParseConfig(TestModels(), json, "");
    ASSERT_TRUE(again.ok()) << again.status() << json;
    EXPECT_EQ(again->optimizer, config->optimizer) << json;
  }
}

TEST(Optimizers, TheFirstIsThatOfAConfigurationWithoutOne) {
  EXPECT_EQ(DefaultOptimizer()->name(), Optimizers().front().name);
  EXPECT_EQ(OptimizerConfig().weight_decay, Optimizers().front().weight_decay);
}

TEST(Optimizers, StatesHaveAFormat) {
  const auto moments = [](const std::string& type,
                          const std::vector<std::string>& overrides = {}) {
    const auto config = Parse(type, overrides);
    EXPECT_TRUE(config.ok()) << config.status();
    // The configuration in a checkpoint says the same.
    const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->optimizer == config->optimizer);
    return config->optimizer.rule->formats().moments;
  };
  const auto error = [](const std::string& type, const std::string& format) {
    const auto config = Parse(type, {"optimizer.state_format=" + format});
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(config.status().message());
  };
  EXPECT_EQ(moments("AdamW"), MomentFormat::kFloat32);
  EXPECT_EQ(moments("AdamW16bit"), MomentFormat::kBFloat16);
  EXPECT_EQ(
      moments("AdamW8bit", {R"(optimizer.state_format={"moments": "int8"})"}),
      MomentFormat::kInt8);
  EXPECT_EQ(moments("Adam", {R"(optimizer.state_format={"moments": "bf16"})"}),
            MomentFormat::kBFloat16);
  EXPECT_FALSE(Parse("AdamW8bit")->optimizer == Parse("AdamW")->optimizer);
  EXPECT_THAT(error("AdamW8bit", R"({"moments": "bf16"})"),
              HasSubstr("type \"AdamW8bit\" means \"int8\""));
  EXPECT_THAT(error("Lamb", R"({"moments": "int8"})"),
              HasSubstr("Lamb keeps them in fp32"));
  EXPECT_EQ(moments("Lion"), MomentFormat::kFloat32);
  EXPECT_EQ(moments("Lion8bit"), MomentFormat::kInt8);
  EXPECT_THAT(error("Lion8bit", R"({"moments": "fp32"})"),
              HasSubstr("means \"int8\": leave it out, or use type \"Lion\""));
  EXPECT_EQ(moments("SGD", {"optimizer.params.momentum=0.9",
                            R"(optimizer.state_format={"moments": "int8"})"}),
            MomentFormat::kInt8);
  EXPECT_THAT(error("SGD", R"({"moments": "int8"})"),
              HasSubstr("optimizer.params.momentum: is 0, so that nothing is "
                        "kept that a state_format.moments of \"int8\" could be "
                        "of"));
  EXPECT_THAT(error("AdamW", R"({"master": "split"})"),
              HasSubstr("optimizer.state_format.master: \"split\" wants "
                        "parameters in bf16, and they are fp32: set "
                        "bf16.enabled, or \"fp32\""));
  EXPECT_THAT(error("AdamW8bit", R"({"master": "bf16"})"),
              HasSubstr("type \"AdamW8bit\" means \"fp32\""));
  EXPECT_THAT(error("Lamb", R"({"master": "bf16"})"),
              HasSubstr("master: Lamb keeps them in fp32"));
  const auto config = Parse(
      "AdamW",
      {"bf16.enabled=true", R"(optimizer.state_format={"master": "split"})"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->optimizer.rule->formats(),
            StateFormats{.master = MasterFormat::kSplit});
  EXPECT_EQ(config->optimizer.rule->states().master, StateFormat::kSplit);
  const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->optimizer == config->optimizer);
  EXPECT_FALSE(Parse("AdamW")->optimizer == config->optimizer);
  EXPECT_THAT(error("AdamW", R"({"moments": "int4"})"),
              HasSubstr("expected one of \"fp32\", \"bf16\", \"int8\""));
}

TEST(Optimizers, SgdKeepsItsMomentumAlone) {
  EXPECT_TRUE(Parse("SGD")->optimizer.rule->slots().empty());
  const auto with = Parse("SGD", {"optimizer.params.momentum=0.9"});
  EXPECT_EQ(with->optimizer.rule->slots().size(), 1u);
  // The smaller formats that there are.
  const auto smaller = [](const absl::StatusOr<Config>& config, DType dtype) {
    return SmallerFormats(*config->optimizer.rule, dtype);
  };
  EXPECT_TRUE(smaller(Parse("SGD"), DType::kFloat32).empty());
  EXPECT_EQ(smaller(Parse("SGD"), DType::kBFloat16),
            (std::vector<StateFormats>{{.master = MasterFormat::kSplit},
                                       {.master = MasterFormat::kBFloat16}}));
  EXPECT_EQ(smaller(with, DType::kFloat16).size(), 2u);
  const auto all = smaller(with, DType::kBFloat16);
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back(),
            (StateFormats{MasterFormat::kBFloat16, MomentFormat::kInt8}));
  EXPECT_TRUE(smaller(Parse("Lion8bit"), DType::kBFloat16).empty());
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"optimizer.params.nesterov=true"},
        {"optimizer.params.nesterov=true", "optimizer.params.momentum=0.9",
         "optimizer.params.dampening=0.1"},
        {"optimizer.params.momentum=1"}}) {
    EXPECT_EQ(Parse("SGD", wrong).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Optimizers, SayWhatAParameterTakesAtHome) {
  EXPECT_EQ(
      BytesAtHome(DType::kBFloat16, false, *Parse("AdamW8bit")->optimizer.rule),
      "a trained parameter takes 8.125 bytes at home; by optimizer.type and "
      "state_format.moments: AdamW, Adam fp32 14, bf16 10, int8 8.125; Lamb "
      "14; Lion fp32 10, bf16 8, int8 7.0625; SGD 6; Adafactor 6 and 4 for "
      "each row and column\n"
      "  with state_format.master \"split\": AdamW, Adam fp32 13, bf16 9, int8 "
      "7.125; Lion fp32 9, bf16 7, int8 6.0625; SGD 5\n"
      "  with state_format.master \"bf16\": AdamW, Adam fp32 12, bf16 8, int8 "
      "6.125; Lion fp32 8, bf16 6, int8 5.0625; SGD 4");
  EXPECT_THAT(
      BytesAtHome(DType::kBFloat16, false, *Parse("Adafactor")->optimizer.rule),
      HasSubstr("takes 6 bytes at home and 4 for each row and column;"));
  EXPECT_THAT(
      BytesAtHome(
          DType::kFloat32, true,
          *Parse("SGD", {"optimizer.params.momentum=0.9"})->optimizer.rule),
      AllOf(HasSubstr("takes 16 bytes at home"),
            HasSubstr("Lion, SGD fp32 16, bf16 14, int8 13.0625")));
}

TEST(Optimizers, KeepSlotsThatMemoryHasRoomFor) {
  for (const OptimizerRow& row : Optimizers()) {
    const auto config = Parse(std::string(row.name));
    ASSERT_TRUE(config.ok());
    std::set<std::string> names = {"master"};
    for (const StateSlot& slot : config->optimizer.rule->slots()) {
      EXPECT_TRUE(names.insert(slot.name).second) << slot.name;
    }
    EXPECT_LE(names.size(), size_t{kMaxStateSlots} + 1);
  }
}

// The arrays of one chunk of 200 elements, with random parameters.
struct Arrays {
  static constexpr int64_t kSize = 200;

  Arrays(const Optimizer& optimizer, DType dtype, bool sum)
      : dtype(dtype), layout(optimizer.states()), has_sum(sum) {
    payload.resize(kSize * SizeOf(dtype));
  }
  static float Random(uint64_t stream, int64_t i) {
    return static_cast<float>(RandomWord({5, stream}, i)) * 0x1p-31f - 1;
  }
  void SetGradients(int step) {
    for (int64_t i = 0; i < kSize; ++i) {
      const float g = Random(step, i);
      if (has_sum) {
        gradients[i] = g;
      } else if (dtype == DType::kFloat32) {
        reinterpret_cast<float*>(payload.data())[i] = g;
      } else {
        reinterpret_cast<BFloat16*>(payload.data())[i] = BFloat16(g);
      }
    }
  }
  // Shows elements [begin, end) as if they were a shard.
  UpdateArrays View(int64_t begin, int64_t end) {
    float* const sum = has_sum ? &gradients[begin] : nullptr;
    const int64_t size = RoundUp(end - begin, kStateTile);
    UpdateArrays view = {
        .payload = payload.data() + begin * SizeOf(dtype),
        .dtype = dtype,
        .gradient_sum = sum,
        .gradient_scale = &scale,
        .states = {.sum = sum, .elements = size, .begin = begin}};
    std::vector<std::vector<std::byte>>& own = states[{begin, end}];
    const bool begins = own.empty();
    own.resize(layout.num_parts());
    for (int i = 0; i < layout.num_parts(); ++i) {
      own[i].resize(StateBytes(layout.format(StatePart(i)), size));
      if (i > 0) view.states.slots[i - 1] = own[i].data();
    }
    view.states.master = own[0].data();
    if (begins) {
      std::vector<float> values;
      for (int64_t i = begin; i < end; ++i) values.push_back(Random(0, i));
      EncodeStates(layout.master, values.data(), own[0].data(), size, 0,
                   end - begin);
    }
    return view;
  }
  // All elements' values of a part.
  std::vector<float> Values(StatePart part) const {
    std::vector<float> values;
    for (const auto& [range, arrays] : states) {
      const int64_t size = range.second - range.first;
      values.resize(range.second);
      DecodeStates(layout.format(part), arrays[part.index()].data(),
                   RoundUp(size, kStateTile), 0, size,
                   values.data() + range.first);
    }
    return values;
  }
  std::vector<float> Masters() const { return Values(StatePart::kMaster); }
  bool SameStates(const Arrays& other) const {
    for (int i = 0; i < layout.num_parts(); ++i) {
      if (Values(StatePart(i)) != other.Values(StatePart(i))) return false;
    }
    return true;
  }

  DType dtype;
  StateLayout layout;
  bool has_sum;
  float scale = 0.5f;
  std::vector<std::byte> payload;
  std::vector<float> gradients = std::vector<float>(kSize);
  // The parts' arrays, by the shard's first element and its end.
  std::map<std::pair<int64_t, int64_t>, std::vector<std::vector<std::byte>>>
      states;
};

// The types of parameters with which its states can be.
std::vector<DType> TypesWith(const Optimizer& optimizer) {
  if (optimizer.formats().master != MasterFormat::kFloat32) {
    return {DType::kBFloat16};
  }
  return {DType::kFloat32, DType::kBFloat16};
}

// A row's optimizer, with other values than those of a configuration that has
// only its type.
struct Variant {
  std::string name;
  std::string type;
  std::vector<std::string> overrides;
};
std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const OptimizerRow& row : Optimizers()) {
    variants.push_back({std::string(row.name), std::string(row.name), {}});
  }
  const std::string format = R"(optimizer.state_format={"moments": "bf16"})";
  const std::string momentum = "optimizer.params.momentum=0.9";
  variants.push_back({"LionInBf16", "Lion", {format}});
  variants.push_back(
      {"SGDWithMomentum", "SGD", {momentum, "optimizer.params.dampening=0.2"}});
  variants.push_back({"SGDWithMomentumInBf16",
                      "SGD",
                      {momentum, "optimizer.params.nesterov=true", format}});
  const std::string bf16 = "bf16.enabled=true";
  const auto states = [](absl::string_view master, absl::string_view moments) {
    return absl::StrCat("optimizer.state_format={\"master\": \"", master,
                        "\", \"moments\": \"", moments, "\"}");
  };
  variants.push_back(
      {"AdamWSplitInt8", "AdamW", {bf16, states("split", "int8")}});
  variants.push_back(
      {"AdamSplitFp32", "Adam", {bf16, states("split", "fp32")}});
  variants.push_back(
      {"AdafactorWithMoment",
       "Adafactor",
       {"optimizer.params.beta1=0.9", "optimizer.params.relative_step=false"}});
  variants.push_back({"AdamWBf16", "AdamW", {bf16, states("bf16", "bf16")}});
  variants.push_back({"LionBf16Int8", "Lion", {bf16, states("bf16", "int8")}});
  variants.push_back({"SGDSplit", "SGD", {bf16, states("split", "fp32")}});
  return variants;
}

// The parameter is a matrix.
Margins Shape() { return MarginsOf({10, 20}); }

class OptimizerRows : public ::testing::TestWithParam<Variant> {
 protected:
  std::shared_ptr<const Optimizer> Make() const {
    return Parse(GetParam().type, GetParam().overrides)->optimizer.rule;
  }
  // Ranges of the one parameter, of one shard.
  struct Part {
    std::vector<UpdateRange> ranges;
    UpdateArrays arrays;
  };
  // A step of a parameter of which several ranks may have parts.
  void Update(const Optimizer& optimizer, int number,
              const std::vector<Part>& parts, double lr = 0.01) {
    const UpdateStep step = {.number = number, .lr = lr};
    if (optimizer.margins()) UpdateMargins(optimizer, step, parts);
    std::vector<kernels::ExactSum> sums(optimizer.num_sums());
    for (const Part& part : parts) {
      std::vector<kernels::ExactSum> own(sums.size());
      const absl::Status status = optimizer.Measure(
          step, part.ranges, WithFactors(part), own.data(), {&pool_});
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < sums.size(); ++i) sums[i].Add(own[i]);
    }
    std::vector<double> values;
    for (const kernels::ExactSum& sum : sums) values.push_back(sum.Value());
    for (const Part& part : parts) {
      UpdateArrays arrays = WithFactors(part);
      arrays.sums = values.data();
      const absl::Status status =
          optimizer.Update(step, part.ranges, arrays, {&pool_});
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  void UpdateMargins(const Optimizer& optimizer, const UpdateStep& step,
                     const std::vector<Part>& parts) {
    std::vector<kernels::ExactSum> sums(Shape().count());
    for (const Part& part : parts) {
      std::vector<kernels::ExactSum> own(sums.size());
      const absl::Status status = optimizer.MeasureMargins(
          step, part.ranges, part.arrays, own.data(), {&pool_});
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < sums.size(); ++i) sums[i].Add(own[i]);
    }
    const float* const of = parts[0].arrays.gradient_scale;
    if (!std::isfinite(*of)) return;
    margins_[of].resize(2 * sums.size());
    optimizer.UpdateMargins(step, {.margins = Shape(),
                                   .sums = sums.data(),
                                   .kept = margins_[of].data() + sums.size(),
                                   .factors = margins_[of].data()});
  }
  UpdateArrays WithFactors(const Part& part) {
    UpdateArrays arrays = part.arrays;
    arrays.factors = margins_[arrays.gradient_scale].data();
    return arrays;
  }
  ThreadPool pool_{2};
  // Factors and kept values, by whose scale it is: all shards' of some Arrays.
  std::map<const float*, std::vector<float>> margins_;
};

// Promise P1: neither the cut into ranges nor that into shards shows.
TEST_P(OptimizerRows, BitsDependOnNeitherRangesNorShards) {
  const auto optimizer = Make();
  for (const DType dtype : TypesWith(*optimizer)) {
    for (const bool sum : {false, true}) {
      Arrays whole(*optimizer, dtype, sum);
      Arrays ranges = whole, shards = whole;
      for (int step = 1; step <= 3; ++step) {
        whole.SetGradients(step);
        ranges.SetGradients(step);
        shards.SetGradients(step);
        const auto range = [&](int64_t begin, int64_t end, int64_t shard = 0) {
          return UpdateRange{.begin = begin,
                             .end = end,
                             .weight_decay = 0.1,
                             .key = {1, static_cast<uint64_t>(step)},
                             .first = shard + begin,
                             .margins = Shape()};
        };
        Update(*optimizer, step, {{{range(0, 200)}, whole.View(0, 200)}});
        Update(*optimizer, step,
               {{{range(0, 64), range(64, 128), range(128, 200)},
                 ranges.View(0, 200)}});
        Update(*optimizer, step,
               {{{range(0, 128)}, shards.View(0, 128)},
                {{range(0, 72, 128)}, shards.View(128, 200)}});
      }
      EXPECT_NE(whole.Masters()[7], Arrays::Random(0, 7));
      EXPECT_TRUE(whole.SameStates(ranges) && whole.SameStates(shards));
      EXPECT_EQ(whole.payload, ranges.payload);
      EXPECT_EQ(whole.payload, shards.payload);
      if (dtype == DType::kFloat32) {
        const std::vector<float> masters = whole.Masters();
        EXPECT_TRUE(
            std::equal(masters.begin(), masters.end(),
                       reinterpret_cast<const float*>(whole.payload.data())));
      }
    }
  }
}

TEST_P(OptimizerRows, FactorOfARangeIsOneOfItsRate) {
  const auto optimizer = Make();
  Arrays factor(*optimizer, TypesWith(*optimizer)[0], false);
  Arrays rate = factor, neither = factor;
  for (int step = 1; step <= 2; ++step) {
    for (Arrays* arrays : {&factor, &rate, &neither}) {
      arrays->SetGradients(step);
    }
    const UpdateRange range = {
        .begin = 0, .end = 200, .weight_decay = 0.1, .margins = Shape()};
    UpdateRange with_factor = range;
    with_factor.lr_factor = 4;
    Update(*optimizer, step, {{{with_factor}, factor.View(0, 200)}});
    Update(*optimizer, step, {{{range}, neither.View(0, 200)}});
    Update(*optimizer, step, {{{range}, rate.View(0, 200)}}, /*lr=*/0.04);
  }
  EXPECT_TRUE(factor.SameStates(rate));
  EXPECT_FALSE(factor.SameStates(neither));
}

TEST_P(OptimizerRows, AStepWithoutAScaleChangesThePayloadAlone) {
  const auto optimizer = Make();
  Arrays arrays(*optimizer, TypesWith(*optimizer)[0], false);
  arrays.SetGradients(1);
  const UpdateRange all = {.begin = 0, .end = 200, .margins = Shape()};
  Update(*optimizer, 1, {{{all}, arrays.View(0, 200)}});
  const Arrays before = arrays;
  arrays.SetGradients(2);
  arrays.scale = std::numeric_limits<float>::quiet_NaN();
  Update(*optimizer, 2, {{{all}, arrays.View(0, 200)}});
  EXPECT_TRUE(arrays.SameStates(before));
  EXPECT_EQ(arrays.payload, before.payload);  // not the gradients
}

// An update aside, where the optimizer says that it can make one, leaves what
// it reads as it was, and gives the bits of an update in place.
TEST_P(OptimizerRows, AnUpdateAsideGivesTheSameBits) {
  const auto optimizer = Make();
  if (!optimizer->updates_aside()) return;
  for (const DType dtype : TypesWith(*optimizer)) {
    for (const bool sum : {false, true}) {
      for (const bool skipped : {false, true}) {
        Arrays in_place(*optimizer, dtype, sum);
        in_place.SetGradients(1);
        if (skipped) in_place.scale = std::numeric_limits<float>::quiet_NaN();
        Arrays before = in_place, aside = in_place;
        std::memset(aside.View(0, 200).states.master, 0x55,
                    aside.states[{0, 200}][0].size());
        const std::vector<std::byte> kept = before.payload;
        Update(*optimizer, 1, {{{{0, 200}}, in_place.View(0, 200)}});
        const StateView from = before.View(0, 200).states;
        // Twice, as if its scale had been another one at first.
        for (const bool again : {false, true}) {
          aside.scale = again ? in_place.scale : 3;
          UpdateArrays view = aside.View(0, 200);
          view.from = &from;
          if (!sum) view.gradient = kept.data();
          Update(*optimizer, 1, {{{{0, 200}}, view}});
        }
        EXPECT_TRUE(aside.SameStates(in_place));
        EXPECT_EQ(aside.payload, in_place.payload);
        EXPECT_EQ(before.payload, kept);
      }
    }
  }
}

TEST_P(OptimizerRows, ElementsOutsideOfRangesStayAsTheyAre) {
  const auto optimizer = Make();
  Arrays arrays(*optimizer, TypesWith(*optimizer)[0], true);
  arrays.SetGradients(1);
  arrays.View(0, 200);
  const std::vector<float> before = arrays.Masters();
  const UpdateRange range = {
      .begin = 64, .end = 100, .first = 64, .margins = Shape()};
  Update(*optimizer, 1, {{{range}, arrays.View(0, 200)}});
  const std::vector<float> after = arrays.Masters();
  for (int64_t i = 0; i < Arrays::kSize; ++i) {
    EXPECT_EQ(after[i] == before[i], i < 64 || i >= 100) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerRows, ::testing::ValuesIn(Variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace castor
