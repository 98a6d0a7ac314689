#include "run/model/model_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

// A store over parameters of odd sizes, one of them larger than the pieces in
// which values travel (2^18), one frozen.
struct Stored {
  Stored(DType dtype, int64_t chunk_bytes, Side side, uint64_t seed) {
    Add("wte", 300001, {.stddev = 0.02f});
    Add("ln", 65, {.mean = 1});
    Add("frozen", 100, {.mean = 2, .stddev = 3});
    parameters[2]->trainable = false;
    Add("a.bias", 1, {});
    std::vector<LayoutParameter> list;
    for (const auto& parameter : parameters) {
      list.push_back({.name = parameter->name,
                      .elements = parameter->elements(),
                      .trainable = parameter->trainable});
    }
    layout = *MakeChunkLayout(
        list, {.dtype = dtype,
               .chunk_bytes = chunk_bytes,
               .states = {.slots = {{"m"}, {"v", StateFormat::kBFloat16}}}});
    std::vector<Side> sides;
    for (const ChunkSpec& chunk : layout.chunks) {
      sides.push_back(chunk.trainable ? side : Side::kHost);
    }
    for (auto& parameter : parameters) {
      parameter->chunk = layout.place(parameter->id).chunk;
      parameter->offset = layout.place(parameter->id).offset;
    }
    device = *HostDevice::Create({.memory_bytes = 8 << 20});
    host = *HostMemory::Create({.budget_bytes = 64 << 20});
    arena = *Arena::Create(device.get(), {.scribble_freed = true});
    store = *ChunkStore::Create(device.get(), arena.get(), host.get(), &layout,
                                false, sides);
    InitialValues source(seed);
    EXPECT_TRUE(FillChunks(parameters, *store, source).ok());
  }
  void Add(const char* name, int64_t elements, Initializer init) {
    auto parameter = std::make_unique<Parameter>();
    parameter->id = ParamId(static_cast<int64_t>(parameters.size()));
    parameter->name = name;
    parameter->shape = {elements};
    parameter->init = init;
    parameters.push_back(std::move(parameter));
  }
  std::string Hash() {
    auto hash = ParametersSha256(parameters, *store, nullptr);
    EXPECT_TRUE(hash.ok()) << hash.status();
    return *hash;
  }

  Parameters parameters;
  ChunkLayout layout;
  std::unique_ptr<HostDevice> device;
  std::unique_ptr<HostMemory> host;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ChunkStore> store;
};

TEST(ModelState, InitialValuesDependOnSeedAloneNotOnPlacement) {
  const std::string hash = Stored(DType::kFloat32, 0, Side::kHost, 1).Hash();
  EXPECT_EQ(hash.size(), 64u);
  for (int64_t chunk_bytes : {256, 4096, 1 << 22}) {
    for (Side side : {Side::kHost, Side::kDevice}) {
      EXPECT_EQ(Stored(DType::kFloat32, chunk_bytes, side, 1).Hash(), hash)
          << chunk_bytes;
    }
  }
  EXPECT_NE(Stored(DType::kFloat32, 0, Side::kHost, 2).Hash(), hash);
}

TEST(ModelState, PaddingIsZeroWhateverWasThereBefore) {
  Stored stored(DType::kBFloat16, 4096, Side::kHost, 1);
  const ChunkLayout& layout = stored.layout;
  // Calls `see` with each array of a chunk's bytes, and its elements' size.
  const auto each_array = [&](int64_t chunk, auto see) {
    ASSERT_TRUE(stored.store
                    ->Fill(ChunkId(chunk),
                           [&](std::byte* home, const StateView& states) {
                             see(home, 2);
                             if (states.master == nullptr) {
                               return absl::OkStatus();
                             }
                             see(states.master, 4);
                             see(states.slots[0], 4);
                             see(states.slots[1], 2);
                             return absl::OkStatus();
                           })
                    .ok());
  };
  int64_t padding = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    const int64_t elements = layout.shard_elements(ChunkId(i));
    each_array(i, [&](std::byte* bytes, int64_t size) {
      std::fill_n(bytes, elements * size, std::byte{0xFF});
    });
  }
  InitialValues source(1);
  ASSERT_TRUE(FillChunks(stored.parameters, *stored.store, source).ok());
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    const int64_t elements = layout.shard_elements(ChunkId(i));
    std::vector<bool> used(elements);
    for (ParamId id : layout.chunk(ChunkId(i)).parameters) {
      const Parameter& parameter = *stored.parameters[id.value];
      std::fill_n(used.begin() + parameter.offset, parameter.elements(), true);
    }
    each_array(i, [&](const std::byte* bytes, int64_t size) {
      for (int64_t at = 0; at < elements * size; ++at) {
        if (used[at / size]) continue;
        ++padding;
        ASSERT_EQ(bytes[at], std::byte{0}) << "chunk " << i << " byte " << at;
      }
    });
  }
  EXPECT_GT(padding, 0);
}

TEST(ModelState, HashIsThatOfTheValuesInTheOrderOfNames) {
  Stored stored(DType::kFloat32, 0, Side::kHost, 1);
  InitialValues source(1);
  Sha256 hash;
  for (int i : {3, 2, 1, 0}) {  // a.bias, frozen, ln, wte
    const Parameter& parameter = *stored.parameters[i];
    std::vector<float> values(parameter.elements());
    ASSERT_TRUE(source
                    .Read(parameter, StatePart::kMaster, 0,
                          parameter.elements(), values.data())
                    .ok());
    hash.Update(values.data(),
                static_cast<int64_t>(values.size() * sizeof(float)));
  }
  EXPECT_EQ(stored.Hash(), hash.HexDigest());
  EXPECT_EQ(stored.Hash(), stored.Hash());
}

TEST(InitialValues, AreNormalOrConstantAndStatesAreZero) {
  InitialValues source(3);
  Parameter parameter;
  parameter.name = "w";
  parameter.init = {.mean = 1, .stddev = 2};
  constexpr int64_t kSize = 10000;
  std::vector<float> x(kSize);
  ASSERT_TRUE(
      source.Read(parameter, StatePart::kMaster, 0, kSize, x.data()).ok());
  double sum = 0, squares = 0;
  for (float value : x) {
    sum += value;
    squares += (value - 1.0) * (value - 1.0);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kSize, 1, 5 * 2 / std::sqrt(kSize));
  EXPECT_NEAR(squares / kSize, 4, 5 * 4 * std::sqrt(2.0 / kSize));
  // Element i does not depend on where reading begins.
  float one = 0;
  ASSERT_TRUE(source.Read(parameter, StatePart::kMaster, 777, 778, &one).ok());
  EXPECT_EQ(one, x[777]);
  ASSERT_TRUE(source.Read(parameter, StatePart::Slot(1), 0, 1, &one).ok());
  EXPECT_EQ(one, 0);
  parameter.init = {.mean = 7};
  ASSERT_TRUE(source.Read(parameter, StatePart::kMaster, 0, 1, &one).ok());
  EXPECT_EQ(one, 7);
}

TEST(ModelState, VisitsPiecesInOrderAndStatesOfTrainableParametersAlone) {
  Stored stored(DType::kBFloat16, 4096, Side::kDevice, 1);
  std::vector<std::string> order;
  std::map<std::string, int64_t> next;
  ASSERT_TRUE(
      VisitModelState(stored.parameters, *stored.store, /*with_states=*/true,
                      [&](const Parameter& parameter, StatePart part,
                          int64_t begin, absl::Span<const float> values) {
                        const std::string key =
                            parameter.name + "/" + std::to_string(part.index());
                        if (order.empty() || order.back() != key)
                          order.push_back(key);
                        EXPECT_EQ(begin, next[key]);
                        next[key] += static_cast<int64_t>(values.size());
                        return absl::OkStatus();
                      })
          .ok());
  EXPECT_EQ(order, (std::vector<std::string>{"a.bias/0", "a.bias/1", "a.bias/2",
                                             "frozen/0", "ln/0", "ln/1", "ln/2",
                                             "wte/0", "wte/1", "wte/2"}));
  for (const auto& parameter : stored.parameters) {
    EXPECT_EQ(next[parameter->name + "/0"], parameter->elements());
  }
}

TEST(ModelState, FrozenValuesAreRoundedToThePayloadsTypeOthersAreNot) {
  Stored narrow(DType::kBFloat16, 0, Side::kHost, 1);
  InitialValues source(1);
  ASSERT_TRUE(
      VisitModelState(narrow.parameters, *narrow.store, /*with_states=*/false,
                      [&](const Parameter& parameter, StatePart, int64_t begin,
                          absl::Span<const float> values) {
                        const int64_t n = static_cast<int64_t>(values.size());
                        std::vector<float> wide(n);
                        EXPECT_TRUE(source
                                        .Read(parameter, StatePart::kMaster,
                                              begin, begin + n, wide.data())
                                        .ok());
                        for (int64_t i = 0; i < n; ++i) {
                          // bfloat16 keeps 8 bits.
                          const double unit =
                              parameter.trainable ? 0 : std::abs(wide[i]) / 256;
                          EXPECT_LE(std::abs(values[i] - wide[i]), unit)
                              << parameter.name << i;
                        }
                        return absl::OkStatus();
                      })
          .ok());
}

TEST(ModelState, ErrorOfTheVisitorEndsTheVisit) {
  Stored stored(DType::kFloat32, 0, Side::kHost, 1);
  int calls = 0;
  const absl::Status status = VisitModelState(
      stored.parameters, *stored.store, true,
      [&](const Parameter&, StatePart, int64_t, absl::Span<const float>) {
        ++calls;
        return absl::DataLossError("disk full");
      });
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace castor
